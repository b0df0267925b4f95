package harness

// An operation is one that a worker in another language reports. Times are in ns of
// CLOCK_MONOTONIC.
type operation struct {
	Owner   int    `json:"owner"`
	Key     int    `json:"key"`
	Due     int64  `json:"due_ns"`
	Called  int64  `json:"called_ns"`
	Granted int64  `json:"granted_ns"` // 0 if the key was not granted
	Freed   int64  `json:"freed_ns"`
	Done    int64  `json:"done_ns"` // when the release, or the acquire without a grant, returned
	Outcome string `json:"outcome"`
}
