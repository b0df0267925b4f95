//go:build race

package impls_test

// racing tells that the race detector watches.
const racing = true
