// load: sends one HTTP request over and over on a few keep-alive connections and tells how that went, as JSON.
//
// It writes prepared bytes and reads just enough of the answer to find its end, so that on two cores the client does not
// become what is measured. `{id}` in the body is replaced by a number no other request has. `load streams` and `load burst` do other things.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "streams":
			streams(os.Args[2:])
			return
		case "burst":
			burst(os.Args[2:])
			return
		}
	}
	address := flag.String("address", "127.0.0.1:8420", "host:port")
	method := flag.String("method", "GET", "HTTP method")
	path := flag.String("path", "/", "request path")
	header := flag.String("header", "", "one more header line")
	body := flag.String("body", "", "request body; {id} becomes a fresh number")
	connections := flag.Int("connections", 32, "keep-alive connections")
	seconds := flag.Float64("seconds", 3, "how long to send")
	idFrom := flag.Int64("id-from", 0, "first id")
	flag.Parse()

	end := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	var ids, failed atomic.Int64
	ids.Store(*idFrom)
	times := make([][]float64, *connections)
	var running sync.WaitGroup
	started := time.Now()
	for i := range *connections {
		running.Add(1)
		go func() {
			defer running.Done()
			conn, err := net.Dial("tcp", *address)
			if err != nil {
				failed.Add(1)
				return
			}
			defer conn.Close()
			reader := bufio.NewReaderSize(conn, 64<<10)
			for time.Now().Before(end) {
				text := *body
				if text != "" {
					text = strings.ReplaceAll(text, "{id}", strconv.FormatInt(ids.Add(1), 10))
				}
				request := request(*method, *path, *address, *header, text)
				before := time.Now()
				if _, err := conn.Write(request); err != nil {
					failed.Add(1)
					return
				}
				ok, err := answer(reader)
				if err != nil {
					failed.Add(1)
					return
				}
				if !ok {
					failed.Add(1)
				}
				times[i] = append(times[i], time.Since(before).Seconds())
			}
		}()
	}
	running.Wait()
	elapsed := time.Since(started).Seconds()
	var all []float64
	for _, some := range times {
		all = append(all, some...)
	}
	sort.Float64s(all)
	at := func(q float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return all[min(len(all)-1, int(q*float64(len(all))))] * 1000
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"requests": len(all), "failed": failed.Load(), "per_second": float64(len(all)) / elapsed,
		"p50_ms": at(0.5), "p99_ms": at(0.99), "last_id": ids.Load(),
	})
}

func request(method, path, host, header, body string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	if header != "" {
		out.WriteString(header + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n" + body)
	return out.Bytes()
}

func answer(reader *bufio.Reader) (bool, error) {
	status, err := reader.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	ok := len(status) > 9 && status[9] == '2'
	length := 0
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if len(line) <= 2 {
			break
		}
		if len(line) > 15 && strings.EqualFold(string(line[:15]), "content-length:") {
			length, _ = strconv.Atoi(strings.TrimSpace(string(line[15:])))
		}
	}
	_, err = io.CopyN(io.Discard, reader, int64(length))
	return ok, err
}
