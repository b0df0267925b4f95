package rueidis

import (
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

// answer turns what the library returned into what [wire.Conn] promises.
func answer(reply any, err error) (any, error) {
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if refused, ok := rueidis.IsRedisErr(err); ok {
		return nil, refusal(refused.Error())
	}
	if err != nil {
		return nil, err
	}
	return plain(reply), nil
}

// refusal gives an error reply its code back: the library strips "ERR ", and
// nothing else. What does not begin like a text comes from no Redis.
func refusal(text string) wire.Error {
	e := wire.Error(text)
	if text == "" || text[0] < ' ' {
		return e
	}
	if code := e.Code(); len(code) < 3 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "ERR " + e
	}
	return e
}

// plain gives the types of RESP3 the form that they have in RESP2.
func plain(reply any) any {
	switch r := reply.(type) {
	case bool:
		if r {
			return int64(1)
		}
		return int64(0)
	case float64:
		return strconv.FormatFloat(r, 'g', 17, 64)
	case []any:
		for i := range r {
			r[i] = plain(r[i])
		}
	case map[string]any:
		flat := make([]any, 0, 2*len(r))
		for k, v := range r {
			flat = append(flat, k, plain(v))
		}
		return flat
	case *rueidis.RedisError: // within an array
		return refusal(r.Error())
	}
	return reply
}
