//go:build !linux

// The hook's one connection, where the library makes it.
package main

import (
	"net"
	"time"
)

func dialPlain(at address, limit time.Duration) (lineConn, error) {
	return net.DialTimeout("tcp", net.JoinHostPort(at.host, at.port), limit)
}
