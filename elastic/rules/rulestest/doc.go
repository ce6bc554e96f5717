// Package rulestest makes runs whose peers sign what tests want them to sign.
package rulestest
