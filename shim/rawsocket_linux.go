// A plain blocking socket for the hook's one connection, where the kernel keeps the deadlines.
//
// The library's connections are made for many at once: each waits through a poller and wakes another thread, which is a
// tenth of a hook's time (measured). An address by name still goes through the library, which knows how to look it up.
package main

import (
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
)

type socket struct {
	number   int // its descriptor
	deadline time.Time
}

func dialPlain(at address, limit time.Duration) (lineConn, error) {
	to, err := netip.ParseAddr(at.host)
	if err != nil || to.Zone() != "" {
		return net.DialTimeout("tcp", net.JoinHostPort(at.host, at.port), limit)
	}
	port, err := strconv.Atoi(at.port)
	if err != nil {
		return nil, errAddress
	}
	family, place := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: port, Addr: to.As16()})
	if to.Is4() {
		family, place = syscall.AF_INET, &syscall.SockaddrInet4{Port: port, Addr: to.As4()}
	}
	number, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	made := &socket{number, time.Now().Add(limit)}
	// One write is one request: its last piece must not wait for the first one's receipt.
	syscall.SetsockoptInt(number, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	for {
		if err = made.within(syscall.SO_SNDTIMEO); err == nil { // bounds a connect too
			err = syscall.Connect(number, place)
		}
		if err == syscall.EISCONN { // made while a signal was taken
			err = nil
		}
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// within has the kernel end the next call of a kind at the deadline.
func (s *socket) within(kind int) error {
	left := time.Until(s.deadline)
	if left < time.Microsecond {
		return os.ErrDeadlineExceeded
	}
	limit := syscall.NsecToTimeval(left.Nanoseconds())
	return syscall.SetsockoptTimeval(s.number, syscall.SOL_SOCKET, kind, &limit)
}

func (s *socket) SetDeadline(deadline time.Time) error {
	s.deadline = deadline
	return nil
}

// Read may end with EAGAIN when its time is over, which counts as a time-out like the library's own.
func (s *socket) Read(into []byte) (int, error) {
	for {
		if err := s.within(syscall.SO_RCVTIMEO); err != nil {
			return 0, err
		}
		count, err := syscall.Read(s.number, into)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case count == 0 && len(into) > 0:
			return 0, io.EOF
		}
		return count, nil
	}
}

func (s *socket) Write(text []byte) (int, error) {
	written := 0
	for written < len(text) {
		if err := s.within(syscall.SO_SNDTIMEO); err != nil {
			return written, err
		}
		count, err := syscall.Write(s.number, text[written:])
		if err != nil && err != syscall.EINTR {
			return written, err
		}
		written += max(0, count)
	}
	return written, nil
}

func (s *socket) Close() error {
	return syscall.Close(s.number)
}
