// Reads a stream with pcgroups of orbit.go in its strict form (one message in flight per member,
// each acknowledged) into a counter, and prints one line of JSON with what it counted.
//
// There is one member per partition, all in this process: the form in which pcgroups is fastest
// while it keeps order.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/pcgroups"
)

// tally counts messages until they are enough.
type tally struct {
	mutex       sync.Mutex
	count       uint64
	first, last time.Time
	most        uint64
	within      time.Duration
	done        chan struct{}
	once        sync.Once
}

func (t *tally) note() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	if t.count == 0 {
		t.first = now
	}
	t.count++
	t.last = now
	if t.count >= t.most || now.Sub(t.first) >= t.within {
		t.once.Do(func() { close(t.done) })
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pcgroups:", err)
		os.Exit(1)
	}
}

func run() error {
	url := flag.String("url", nats.DefaultURL, "the server")
	kind := flag.String("kind", "static", "static or elastic")
	stream := flag.String("stream", "", "the stream; the first token of its subjects is the partition")
	filter := flag.String("filter", "", "its subjects without the first token (static), or with it (elastic)")
	group := flag.String("group", "bench", "the group's name")
	partitions := flag.Uint("partitions", 1, "partitions, and members")
	most := flag.Uint64("messages", 1, "messages to count")
	within := flag.Duration("within", 10*time.Second, "or how long to count after the first")
	patience := flag.Duration("patience", 60*time.Second, "how long all of it may take")
	flag.Parse()

	connection, err := nats.Connect(*url)
	if err != nil {
		return err
	}
	defer connection.Close()
	js, err := jetstream.New(connection)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	members := make([]string, *partitions)
	for i := range members {
		members[i] = fmt.Sprintf("m%03d", i)
	}
	counter := &tally{most: *most, within: *within, done: make(chan struct{})}
	handle := func(msg jetstream.Msg) {
		if err := msg.Ack(); err == nil {
			counter.note()
		}
	}
	strict := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1}

	consume := pcgroups.StaticConsume
	if *kind == "elastic" {
		consume = pcgroups.ElasticConsume
		partitioning := []pcgroups.PartitioningFilter{{Filter: *filter, PartitioningWildcards: []int{1}}}
		if _, err = pcgroups.CreateElastic(ctx, js, *stream, *group, *partitions, partitioning, -1, -1); err == nil {
			_, err = pcgroups.AddMembers(ctx, js, *stream, *group, members)
		}
	} else {
		_, err = pcgroups.CreateStatic(ctx, js, *stream, *group, *partitions, []string{*filter}, members, nil)
	}
	if err != nil {
		return err
	}
	defer func() { // what is left behind would go on working beside what is measured next
		clean, cancel := context.WithTimeout(context.Background(), *patience)
		defer cancel()
		remove := pcgroups.DeleteStatic
		if *kind == "elastic" {
			remove = pcgroups.DeleteElastic
		}
		if err := remove(clean, js, *stream, *group); err != nil {
			fmt.Fprintln(os.Stderr, "pcgroups: not removed:", err)
		}
	}()
	for _, member := range members {
		consuming, err := consume(ctx, js, *stream, *group, member, handle, strict)
		if err != nil {
			return err
		}
		defer consuming.Stop()
	}
	select {
	case <-counter.done:
	case <-ctx.Done():
		return fmt.Errorf("%d messages within %s", counter.count, *patience)
	}
	counter.mutex.Lock()
	defer counter.mutex.Unlock()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"messages": counter.count, "at_first": 1, "seconds": counter.last.Sub(counter.first).Seconds(),
	})
}
