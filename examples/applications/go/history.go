package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"golang.org/x/sys/unix"

	lockstep "lockstep.dev/clients/go"
)

// history is what was seen and acknowledged, as the history checker in e2e/ reads it.
type history struct {
	file            *os.File
	member, session string
	acks            int
	pending         []record
}

type record = map[string]any

func open(path, member string) (*history, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	session := fmt.Sprintf("%s-%d-%d", member, os.Getpid(), time.Now().UnixNano())
	return &history{file: file, member: member, session: session}, err
}

// write writes one line at once, so that what a killed process wrote is there.
func (h *history) write(what string, fields record) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		log.Fatal(err)
	}
	line := record{"what": what, "member": h.member, "session": h.session, "at": now.Nano()}
	for name, value := range fields {
		line[name] = value
	}
	written, err := json.Marshal(line)
	if err == nil {
		_, err = h.file.Write(append(written, '\n'))
	}
	if err != nil {
		log.Fatal(err) // a witness that cannot write must not go on
	}
}

func (h *history) seen(m lockstep.Message) error {
	var order struct {
		Key string
		N   uint64
	}
	if err := json.Unmarshal(m.Payload, &order); err != nil {
		return err
	}
	fields := of(m.Position)
	fields["key"], fields["n"], fields["attempt"] = order.Key, order.N, m.Attempt
	h.write("seen", fields)
	return nil
}

func (h *history) observe(observer *lockstep.Observer) {
	observer.Acking = func(positions []lockstep.Position) {
		h.pending = nil
		for _, position := range positions {
			ack := h.numbered(position)
			h.pending = append(h.pending, ack)
			h.write("acking", ack)
		}
	}
	observer.Acked = func(results []lockstep.Result) {
		for i, result := range results {
			if result.Status == "NOT_OWNED" {
				h.write("refused", h.pending[i])
			} else {
				h.write("acked", h.pending[i])
			}
		}
	}
	observer.Nacking = func(position lockstep.Position, _ error) { h.write("nacking", h.numbered(position)) }
}

func (h *history) numbered(position lockstep.Position) record {
	h.acks++
	fields := of(position)
	fields["ack"] = h.acks
	return fields
}

func of(position lockstep.Position) record {
	return record{"partition": position.Partition, "epoch": position.Epoch, "sequence": position.Sequence}
}
