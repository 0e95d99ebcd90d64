package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// streams: holds many streams of events open, sends messages at a steady rate and tells how long each event took to reach each
// of them, from the moment its message was sent. One process, so one clock; one thread, so that a core is left for what is measured.
//
// It says `{"open": N}` once all are open and begins at a line on its standard input; it says how it went and ends at another.
func streams(arguments []string) {
	flags := flag.NewFlagSet("streams", flag.ExitOnError)
	address := flags.String("address", "127.0.0.1:8420", "host:port")
	path := flags.String("path", "/v1/events", "path of the stream")
	header := flags.String("header", "", "one more header line, of readers")
	sender := flags.String("sender", "", "the same of the sender")
	task := flags.String("task", "backend", "whom messages are sent to")
	count := flags.Int("streams", 1000, "streams")
	rate := flags.Float64("rate", 100, "messages a second")
	seconds := flags.Float64("seconds", 10, "how long to send")
	name := flags.String("name", "run", "what ids of messages begin with; another one each time")
	patience := flags.Float64("patience", 20, "seconds to wait for the last event")
	flags.Parse(arguments)
	runtime.GOMAXPROCS(1)

	total := int(*rate * *seconds)
	sent := make([]atomic.Int64, total)
	open := make(chan error, *count)
	readers := make([]*reader, *count)
	var reading sync.WaitGroup
	for i := range readers {
		readers[i] = &reader{sent: sent, id: []byte(`"message_id":"` + *name + "-")}
		reading.Add(1)
		go func() {
			defer reading.Done()
			readers[i].run(*address, *path, *header, open)
		}()
		if i%50 == 49 {
			for range 50 {
				if err := <-open; err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}
	}
	say := json.NewEncoder(os.Stdout)
	say.Encode(map[string]any{"open": *count})
	input := bufio.NewReader(os.Stdin)
	input.ReadString('\n')

	failed := send(*address, *sender, *task, *name, *rate, sent)
	everything := int64(*count) * int64(total)
	for end := time.Now().Add(time.Duration(*patience * float64(time.Second))); time.Now().Before(end); {
		got := int64(0)
		for _, one := range readers {
			got += one.got.Load()
		}
		if got >= everything {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	var all []float64
	missing, holes := everything, int64(0)
	for _, one := range readers {
		one.mutex.Lock()
		all = append(all, one.took...)
		missing -= int64(len(one.took))
		holes += one.holes
		one.mutex.Unlock()
	}
	sort.Float64s(all)
	at := func(q float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return all[min(len(all)-1, int(q*float64(len(all))))]
	}
	say.Encode(map[string]any{
		"sent": total, "failed": failed, "read": len(all), "missing": missing, "holes": holes,
		"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1),
	})
	input.ReadString('\n')
}

type reader struct {
	id    []byte         // before a message's number
	sent  []atomic.Int64 // when each message was sent, in nanoseconds
	got   atomic.Int64
	mutex sync.Mutex
	took  []float64 // ms
	holes int64     // events that did not follow the one before
}

func (r *reader) run(address, path, header string, open chan error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		open <- err
		return
	}
	conn.Write(request("GET", path, address, header, ""))
	lines := bufio.NewReaderSize(conn, 8<<10)
	last := int64(-1)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			if last < 0 {
				open <- fmt.Errorf("a stream did not open: %v", err)
			}
			return
		}
		if number, found := bytes.CutPrefix(line, []byte("id: ")); found {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(number)), 10, 64)
			if last < 0 {
				open <- nil
			} else if n != last+1 && n != last { // a ping repeats the last number
				r.holes++
			}
			last = n
		} else if bytes.HasPrefix(line, []byte("data: ")) {
			_, id, found := bytes.Cut(line, r.id)
			if !found {
				continue
			}
			number, _, _ := bytes.Cut(id, []byte(`"`))
			i, _ := strconv.Atoi(string(number))
			took := float64(time.Now().UnixNano()-r.sent[i].Load()) / 1e6
			r.mutex.Lock()
			r.took = append(r.took, took)
			r.mutex.Unlock()
			r.got.Add(1)
		}
	}
}

func send(address, header, task, name string, rate float64, sent []atomic.Int64) int {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return len(sent)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	began := time.Now()
	failed := 0
	for i := range sent {
		time.Sleep(time.Until(began.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		body := fmt.Sprintf(`{"message_id":"%s-%d","body":"hello"}`, name, i)
		sent[i].Store(time.Now().UnixNano())
		conn.Write(request("POST", "/v1/tasks/"+task+"/messages", address, header, body))
		if ok, err := answer(answers); err != nil || !ok {
			failed++
		}
	}
	return failed
}
