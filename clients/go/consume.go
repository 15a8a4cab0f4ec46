package lockstep

//go:generate go run ./internal/generate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Calls is what Consume needs of a worker, however it is reached.
type Calls interface {
	Fetch(ctx context.Context, most int, wait time.Duration) ([]Message, error)
	Ack(ctx context.Context, positions []Position) ([]Result, error)
	Nack(ctx context.Context, position Position, why string) error
}

// Observer is told what Consume does, to count or to log. Nil functions are not called.
type Observer struct {
	// Acking: these are about to be acknowledged; said again before each repetition.
	Acking func([]Position)
	// Acked is the answer to the last Acking; empty if the call itself was refused.
	Acked func([]Result)
	// Nacking: this message failed and is about to be given back.
	Nacking func(Position, error)
	// Trouble: a call did not succeed; it is tried again.
	Trouble func(error)
}

// lastTries is how often an acknowledgement is tried once the context has ended.
const lastTries = 20

// Consume hands over every message in order, and acknowledges those for which handle returned nil.
//
// A message for which it returned an error is given back; what follows it in its partition waits.
// No worker, a worker that starts anew, a group that is not there yet: all are waited for. Once the
// context has ended, what was fetched is finished and acknowledged, and Consume returns: `most`
// messages at a time have to be doable while the application ends. The context that handle is given
// does not end then.
func Consume(ctx context.Context, worker Calls, most int, handle func(context.Context, Message) error, observer Observer) {
	c := consumer{worker, handle, observer.complete()}
	for ctx.Err() == nil {
		var messages []Message
		c.untilAnswered(ctx, 0, func(ctx context.Context) (err error) {
			messages, err = worker.Fetch(ctx, most, time.Second)
			return err
		})
		c.handleAll(ctx, messages)
	}
}

type consumer struct {
	worker   Calls
	handle   func(context.Context, Message) error
	observer Observer
}

func (c *consumer) handleAll(ctx context.Context, messages []Message) {
	done, failed := map[uint32]Position{}, map[uint32]bool{}
	var failures []func()
	flushed := time.Now()
	for _, message := range messages {
		position := message.Position
		if failed[position.Partition] {
			continue
		}
		if err := c.attempt(context.WithoutCancel(ctx), message); err != nil {
			failed[position.Partition] = true
			failures = append(failures, func() { c.giveBack(ctx, position, err) })
		} else {
			done[position.Partition] = position
		}
		if time.Since(flushed) > time.Second { // slow work is acknowledged as it goes
			c.acknowledge(ctx, done)
			flushed = time.Now()
		}
	}
	c.acknowledge(ctx, done)
	for _, giveBack := range failures {
		giveBack()
	}
}

// attempt makes a panic of the application a failure of that message.
func (c *consumer) attempt(ctx context.Context, message Message) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return c.handle(ctx, message)
}

func (c *consumer) acknowledge(ctx context.Context, done map[uint32]Position) {
	var positions []Position
	for _, position := range done {
		positions = append(positions, position)
	}
	clear(done)
	if len(positions) == 0 {
		return
	}
	var results []Result
	c.untilAnswered(ctx, lastTries, func(ctx context.Context) (err error) {
		c.observer.Acking(positions)
		results, err = c.worker.Ack(ctx, positions)
		return err
	})
	c.observer.Acked(results)
}

func (c *consumer) giveBack(ctx context.Context, position Position, why error) {
	c.observer.Nacking(position, why)
	c.untilAnswered(ctx, lastTries, func(ctx context.Context) error {
		return c.worker.Nack(ctx, position, why.Error())
	})
}

// untilAnswered repeats a call until it is answered; once ctx has ended, only so many times.
func (c *consumer) untilAnswered(ctx context.Context, last int, call func(context.Context) error) {
	for {
		err := call(context.WithoutCancel(ctx))
		if err == nil || last == 0 && ctx.Err() != nil {
			return
		}
		c.observer.Trouble(err)
		wait := 100 * time.Millisecond
		if refused := new(Error); errors.As(err, &refused) {
			if !refused.Passes { // time does not heal it; but it must not become a busy loop
				time.Sleep(time.Second)
				return
			}
			wait = min(max(refused.RetryAfter, wait), time.Second)
		}
		if ctx.Err() != nil {
			if last--; last < 0 {
				return
			}
		}
		time.Sleep(wait)
	}
}

func (o Observer) complete() Observer {
	if o.Acking == nil {
		o.Acking = func([]Position) {}
	}
	if o.Acked == nil {
		o.Acked = func([]Result) {}
	}
	if o.Nacking == nil {
		o.Nacking = func(Position, error) {}
	}
	if o.Trouble == nil {
		o.Trouble = func(error) {}
	}
	return o
}
