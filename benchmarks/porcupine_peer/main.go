// Checks one register's history with Porcupine and prints its verdict and the milliseconds that it took.
//
//	porcupine_peer HISTORY SECONDS
//
// A line of HISTORY is an operation as our searches take it: when it was called, when it returned (-1 for a crashed
// one), a code (0 read, 1 write, 2 swap, 3 refused swap) and two numbers: what was read or written, or what the swap
// expected and wrote. Times are distinct. Reading the file is not measured.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	read = iota
	write
	swap
	refused
)

// How often a history is judged that takes less than longMs; the best time counts.
const (
	times  = 3
	longMs = 1000.0
)

type operation struct {
	code, a, b int
	crashed    bool
}

type event struct {
	at    int64
	event porcupine.Event
}

// A register that holds 0 at first. An operation contains all that it saw, so outputs stay empty; it is unknown whether a
// crashed swap found what it expected. Porcupine can be given a hash of states too; it makes no difference here.
var register = porcupine.Model{
	Init: func() interface{} { return 0 },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		held, did := state.(int), input.(operation)
		switch did.code {
		case read:
			return did.a == held, held
		case write:
			return true, did.a
		case swap:
			if held == did.a {
				return true, did.b
			}
			return did.crashed, held
		default:
			return did.a != held, held
		}
	},
}

func main() {
	history, err := load(os.Args[1])
	seconds, malformed := strconv.Atoi(os.Args[2])
	if err != nil || malformed != nil {
		fmt.Fprintln(os.Stderr, "expected a history and a number of seconds:", err, malformed)
		os.Exit(2)
	}
	best := 0.0
	var result porcupine.CheckResult
	for i := 0; i < times; i++ {
		began := time.Now()
		result = porcupine.CheckEventsTimeout(register, history, time.Duration(seconds)*time.Second)
		ms := float64(time.Since(began).Nanoseconds()) / 1e6
		if i == 0 || ms < best {
			best = ms
		}
		if ms > longMs {
			break
		}
	}
	fmt.Printf("%s %.4f\n", map[porcupine.CheckResult]string{
		porcupine.Ok: "valid", porcupine.Illegal: "invalid", porcupine.Unknown: "unknown",
	}[result], best)
}

// load returns the events in their order; crashed operations return after everything else, which may be as good as
// never.
func load(path string) ([]porcupine.Event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var events []event
	last := int64(1) << 60
	lines := bufio.NewScanner(file)
	for id := 0; lines.Scan(); id++ {
		var call, back int64
		var did operation
		if _, err := fmt.Sscan(lines.Text(), &call, &back, &did.code, &did.a, &did.b); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, id+1, err)
		}
		if back < 0 {
			last++
			back, did.crashed = last, true
		}
		events = append(events,
			event{call, porcupine.Event{Kind: porcupine.CallEvent, Value: did, Id: id}},
			event{back, porcupine.Event{Kind: porcupine.ReturnEvent, Id: id}})
	}
	sort.Slice(events, func(i, j int) bool { return events[i].at < events[j].at })
	ordered := make([]porcupine.Event, len(events))
	for i, each := range events {
		ordered[i] = each.event
	}
	return ordered, lines.Err()
}
