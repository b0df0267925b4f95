package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// closeKeeperSession ends a session of ZooKeeper by a second connection to the server at
// addr, which takes the session over and closes it. The client that began it learns of that
// when it comes back, as it would if the session had expired.
func closeKeeperSession(ctx context.Context, addr string, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	password := keeperPassword(id)
	hello := binary.BigEndian.AppendUint32(nil, 0)                                // version of the protocol
	hello = binary.BigEndian.AppendUint64(hello, 0)                               // the newest change that was seen
	hello = binary.BigEndian.AppendUint32(hello, uint32(patience.Milliseconds())) // time-out
	hello = binary.BigEndian.AppendUint64(hello, id)
	hello = binary.BigEndian.AppendUint32(hello, uint32(len(password)))
	hello = append(hello, password[:]...)
	hello = append(hello, 0) // not only to read
	answer, err := exchange(c, hello)
	if err != nil {
		return err
	}
	if len(answer) < 16 || binary.BigEndian.Uint64(answer[8:]) != id {
		return errors.New("the server does not know the session, or its password is another")
	}
	const closeSession = -11
	request := binary.BigEndian.AppendUint32(nil, 1) // number of the request
	request = binary.BigEndian.AppendUint32(request, uint32(closeSession&(1<<32-1)))
	answer, err = exchange(c, request)
	if err != nil {
		return err
	}
	if len(answer) < 16 || binary.BigEndian.Uint32(answer[12:]) != 0 {
		return fmt.Errorf("the server refuses to close the session: %x", answer)
	}
	return nil
}

// exchange sends a packet and returns the one that answers it. Both begin with their
// length.
func exchange(c net.Conn, packet []byte) ([]byte, error) {
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<20 {
		return nil, fmt.Errorf("the server announces %d bytes: is it a ZooKeeper?", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(c, answer)
	return answer, err
}

// keeperPassword is what a server gives the client of a session: the first bytes of
// java.util.Random, seeded with the session's number and a constant of ZooKeeper
// (ZooKeeperServer.generatePasswd), so that every server of an ensemble can check it.
func keeperPassword(id uint64) (password [16]byte) {
	const (
		constant   = 0xB3415C00
		multiplier = 0x5DEECE66D
		mask       = 1<<48 - 1
	)
	state := (id ^ constant ^ multiplier) & mask
	for i := 0; i < len(password); i += 4 {
		state = (state*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(password[i:], uint32(state>>16))
	}
	return password
}
