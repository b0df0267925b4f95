package capacity

// act carries out one event. What all protocols have in common: a command travels for half
// of a round trip, waits for its turn on the server, and its answer travels back.
func (w *world) act(e event) {
	q := &w.requests[e.who]
	switch e.kind {
	case due:
		if w.l.Rate > 0 {
			w.next()
			q = &w.requests[e.who] // next may have moved it
		}
		if w.idle == 0 {
			w.backlog = append(w.backlog, e.who)
			return
		}
		w.idle--
		q.called = w.now
		w.attempt(e.who)
	case retries:
		w.attempt(e.who)
	case asks:
		w.push(event{at: w.serve(e.node), kind: decided, who: e.who, node: e.node})
	case decided:
		w.decide(e)
	case answered:
		w.count(e)
	case granted:
		w.grant(e.who)
	case freed:
		q.freed = w.now
		trip := w.p.release.draw(w.r)
		for node := range w.m.Nodes {
			w.push(event{at: w.now + trip/2, kind: frees, who: e.who, node: int32(node)})
		}
		w.push(event{at: w.now + trip, kind: released, who: e.who})
	case frees:
		w.push(event{at: w.serve(e.node), kind: gone, who: e.who, node: e.node})
	case gone:
		w.free(e)
	case released:
		w.release(q.read)
	}
}

// attempt sends what asks for the key.
func (w *world) attempt(who int32) {
	q := &w.requests[who]
	q.yes, q.answers = 0, 0
	for node := range w.m.Nodes {
		q.trip = w.p.free.draw(w.r)
		w.push(event{at: w.now + q.trip/2, kind: asks, who: who, node: int32(node)})
	}
}

// decide is the server's answer to who asks.
func (w *world) decide(e event) {
	q := &w.requests[e.who]
	p := w.place(q, e.node)
	back := w.now + q.trip/2
	taken := !q.over && w.open(p, q)
	if taken {
		w.take(p, e.who)
	}
	switch {
	case w.m.Order == Quorum:
		e.kind, e.at, e.yes = answered, back, taken
		w.push(e)
	case taken:
		w.push(event{at: back, kind: granted, who: e.who})
	case w.m.Order == Polling:
		w.push(event{at: back + w.backoff(q.tries), kind: retries, who: e.who})
		q.tries++
	default:
		p.waiters = append(p.waiters, e.who)
	}
}

// count is the client of a quorum when one server has answered. With most of them it
// holds; if all have answered otherwise it gives back what it has, waits for that, and
// tries again after a delay.
func (w *world) count(e event) {
	q := &w.requests[e.who]
	q.answers++
	if e.yes {
		q.yes++
	}
	need := int16(w.m.Nodes/2 + 1)
	switch {
	case q.granted:
	case q.yes == need:
		w.grant(e.who)
	case q.answers == int16(w.m.Nodes):
		trip := w.p.free.draw(w.r)
		for node := range w.m.Nodes {
			if w.place(q, int32(node)).holder == e.who+1 {
				w.push(event{at: w.now + trip/2, kind: frees, who: e.who, node: int32(node)})
			}
		}
		w.push(event{at: w.now + trip + w.backoff(q.tries), kind: retries, who: e.who})
		q.tries++
	}
}

// grant has who hold for as long as planned, and a little longer, as measured.
func (w *world) grant(who int32) {
	q := &w.requests[who]
	q.granted = true
	if w.l.Rate > 0 && q.due >= w.from && q.due < w.until || w.l.Rate == 0 && w.inside(w.now) {
		if q.read {
			w.reads = append(w.reads, w.now-q.due)
		} else {
			w.waits = append(w.waits, w.now-q.due)
		}
	}
	if w.inside(w.now) {
		w.grants++
	}
	w.push(event{at: w.now + q.hold + w.p.beyond.draw(w.r), kind: freed, who: who})
}

// free is the server when a release, or what undoes a vote, has reached it.
func (w *world) free(e event) {
	q := &w.requests[e.who]
	q.over = q.over || q.granted
	p := w.place(q, e.node)
	if !w.leave(p, e.who) || len(p.waiters) == 0 {
		return
	}
	if w.m.Order == FIFO {
		// A writer, or all readers up to the next writer.
		for first := true; len(p.waiters) > 0; first = false {
			who := p.waiters[0]
			if !first && (!w.requests[who].read || p.holder != 0) {
				return
			}
			p.waiters = p.waiters[1:]
			w.take(p, who)
			w.push(event{at: max(w.now, q.freed+w.p.handoff.draw(w.r)), kind: granted, who: who})
		}
		return
	}
	at := max(w.now, q.freed+w.p.handoff.draw(w.r))
	// Anybody may be the first that the message reaches. Until one has asked, the key is free
	// for those who come, unless that was never seen: what was measured is the hand-off to
	// whoever was first, and a race with a second draw would make it shorter. The rest of
	// the herd asks in vain a little later, unless the key comes free again meanwhile.
	first := int64(0)
	for n := range w.herd(len(p.waiters)) {
		i := w.r.IntN(len(p.waiters))
		who := p.waiters[i]
		p.waiters[i] = p.waiters[len(p.waiters)-1]
		p.waiters = p.waiters[:len(p.waiters)-1]
		q := &w.requests[who]
		q.trip = w.p.free.draw(w.r)
		if n == 0 {
			if first = max(w.now, at-q.trip/2); !w.m.passed {
				p.until = first
			}
			w.push(event{at: first, kind: asks, who: who})
			continue
		}
		w.push(event{at: first + w.p.free.draw(w.r)/2, kind: asks, who: who})
	}
}

// herd draws how many of n waiters a release wakes, at least one.
func (w *world) herd(n int) int {
	woken := int(w.p.woken)
	if w.r.Float64() < w.p.woken-float64(woken) {
		woken++
	}
	return max(1, min(n, woken))
}

// release is an owner that has nothing more to do with its key.
func (w *world) release(read bool) {
	if w.l.Rate == 0 {
		w.idle++
		if w.now < w.until {
			w.think(read)
		}
		return
	}
	if len(w.backlog) == 0 {
		w.idle++
		return
	}
	who := w.backlog[0]
	w.backlog = w.backlog[1:]
	w.requests[who].called = w.now
	w.attempt(who)
}
