// Package compare tells whether stored runs differ: two commits, two files, or two values
// of one dimension. Runs are paired by trial and block, a pair gives the logarithm of the
// ratio of its two values, and a difference has to pass three bounds: the test after
// Holm's correction, a least effect, and the noise that the machine shows when it is
// compared with itself.
package compare
