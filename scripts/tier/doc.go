// Command tier runs one tier of the tests and says in its last line how many
// passed, failed and were skipped.
//
//	tier [-name NAME] -- [K=V ...] GO-TEST-ARGS [:: [K=V ...] GO-TEST-ARGS ...]
//	tier [-name NAME] -fuzz INPUTS FOLDERS
//
// Each group is one `go test -json`, with the given variables in its
// environment. With -fuzz, each fuzz target below the folders runs on that many inputs.
//
// It exits with 1 if a test failed, a package did not build, or no test ran at
// all. With HIVED_REQUIRE=all a skip is a failure, unless its reason starts with
// "NOT HERE:", which is for what no package manager can give, or names a variable
// HIVED_..., which is for tests that are run on request.
package main
