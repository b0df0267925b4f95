package lock

import (
	"fmt"
	"net/url"
)

// KeyOf is the key of one thing of a kind, from what identifies it: KeyOf("good", 42) is
// "good/42". Every process that means the same thing gets the same key, and two things
// never share one:
//
//	err := lock.Do(ctx, locker, lock.KeyOf("good", id), func(ctx context.Context) error {
//		return sell(ctx, id)
//	})
//
// Id is taken as fmt.Sprint writes it, so that it should be a number, a string, or
// something that says what it is by itself. Whatever would end a part, or mean something
// to a server, such as slashes and braces, is escaped as in the path of a URL.
func KeyOf(kind string, id any) string {
	return url.PathEscape(kind) + "/" + url.PathEscape(fmt.Sprint(id))
}
