//go:build race

package zookeeper_test

// racing tells that the race detector watches.
const racing = true
