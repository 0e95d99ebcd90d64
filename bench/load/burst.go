package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"
)

// burst: keeps a connection for each of many clients and has them all ask at the same moment.
//
// Each line of standard input is a list of whole requests, one a connection; each answer is a line, too: how long each request
// took, in ms, and what was answered. One thread, so that a core is left for what is measured.
func burst(arguments []string) {
	flags := flag.NewFlagSet("burst", flag.ExitOnError)
	address := flags.String("address", "127.0.0.1:8420", "host:port")
	flags.Parse(arguments)
	runtime.GOMAXPROCS(1)

	var conns []net.Conn
	input := json.NewDecoder(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		var requests []string
		if input.Decode(&requests) != nil {
			return
		}
		for len(conns) < len(requests) {
			conn, err := net.Dial("tcp", *address)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			conns = append(conns, conn)
		}
		took := make([]float64, len(requests))
		answers := make([]string, len(requests))
		begin := make(chan struct{})
		var running sync.WaitGroup
		for i, request := range requests {
			running.Add(1)
			go func() {
				defer running.Done()
				<-begin
				asked := time.Now()
				answers[i] = ask(conns[i], request)
				took[i] = float64(time.Since(asked).Nanoseconds()) / 1e6
			}()
		}
		close(begin)
		running.Wait()
		output.Encode(map[string]any{"took_ms": took, "answers": answers})
	}
}

// ask returns the body of a good answer, or what went wrong.
func ask(conn net.Conn, request string) string {
	if _, err := io.WriteString(conn, request); err != nil {
		return err.Error()
	}
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 4<<10), nil)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	if response.StatusCode != http.StatusOK {
		return response.Status + "\n" + string(body)
	}
	return string(body)
}
