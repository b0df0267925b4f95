package capacity

// event is something that happens at an instant of simulated time.
type event struct {
	at   int64 // ns
	n    int64 // of two at the same instant the one that was planned first is first
	kind kind
	who  int32 // the request
	node int32 // the server, where there are several
	yes  bool  // of answered: the server gave its key
}

type kind uint8

const (
	asks     kind = iota // a command that wants the key reaches a server
	decided              // and its turn comes there
	answered             // the answer of one server of a quorum is there
	granted              // the client knows that it holds
	freed                // Release is called
	frees                // the command that frees reaches a server
	gone                 // and its turn comes there
	released             // Release has returned
	retries              // the delay after an attempt in vain is over
	due                  // an arrival, or the end of an owner's pause
)

// queue is a binary heap of events by time. container/heap would box each of them.
type queue struct {
	list []event
	n    int64
}

func (q *queue) push(e event) {
	q.n++
	e.n = q.n
	q.list = append(q.list, e)
	for i := len(q.list) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.list[i].before(q.list[up]) {
			return
		}
		q.list[i], q.list[up] = q.list[up], q.list[i]
		i = up
	}
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.n < f.n }

func (q *queue) pop() (event, bool) {
	if len(q.list) == 0 {
		return event{}, false
	}
	first, last := q.list[0], len(q.list)-1
	q.list[0] = q.list[last]
	q.list = q.list[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && q.list[down+1].before(q.list[down]) {
			down++
		}
		if !q.list[down].before(q.list[i]) {
			break
		}
		q.list[i], q.list[down] = q.list[down], q.list[i]
		i = down
	}
	return first, true
}
