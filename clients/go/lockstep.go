// Package lockstep is a thin client for the socket of a Lockstep worker.
//
//	worker := lockstep.Dial("/var/run/lockstep/worker.sock", "")
//	lockstep.Consume(ctx, worker, 100, handle, lockstep.Observer{})
//
// This package speaks JSON over HTTP and needs the standard library only; workergrpc has the same
// calls over gRPC. Fields and answers are those of docs/application.md.
package lockstep

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// DefaultSocket is where an injected worker serves its application, if LOCKSTEP_SOCKET says nothing.
const DefaultSocket = "/var/run/lockstep/worker.sock"

// Position is a message's token; the epoch fences writes of former owners.
type Position struct {
	Partition uint32 `json:"partition"`
	Epoch     uint64 `json:"epoch"`
	Sequence  uint64 `json:"sequence"`
}

// Message is a message of a partition.
type Message struct {
	Position
	Stream    string              `json:"stream"`
	Subject   string              `json:"subject"`
	Key       string              `json:"key"`
	Payload   []byte              `json:"payload"`
	Headers   map[string][]string `json:"headers"`
	Timestamp time.Time           `json:"timestamp"`
	Attempt   uint32              `json:"attempt"`
	Deadline  time.Time           `json:"deadline"`
}

// Result is what became of one position: Status is ACCEPTED, COMMITTED or NOT_OWNED.
type Result struct {
	Position
	Status    string `json:"status"`
	Committed uint64 `json:"committed"`
}

// Error is an answer that is an error. Any other error means that there was no answer: the call may
// have arrived, and may be repeated.
type Error struct {
	Code, Message, Hint string
	// Passes says whether the same call may succeed later.
	Passes bool
	// RetryAfter says when, if it is known.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s; %s", e.Code, e.Message, e.Hint) }

// Worker is a connection to a worker over HTTP. It may be used by several goroutines, but then
// each that fetches needs a Worker with a session of its own.
type Worker struct {
	session string
	client  *http.Client
}

// Dial names a worker's socket (LOCKSTEP_SOCKET or DefaultSocket if empty) and a session (the shared
// one if empty). It connects when something is called.
func Dial(socket, session string) *Worker {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", Socket(socket))
	}
	return &Worker{session, &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: time.Minute}}
}

// Socket is the socket to use: the one that is named, the environment's, or the default.
func Socket(named string) string {
	for _, socket := range []string{named, os.Getenv("LOCKSTEP_SOCKET")} {
		if socket != "" {
			return socket
		}
	}
	return DefaultSocket
}

// Fetch takes messages, and waits up to `wait` for the first.
func (w *Worker) Fetch(ctx context.Context, most int, wait time.Duration) ([]Message, error) {
	var answer struct{ Messages []Message }
	body := map[string]any{"max_messages": most, "max_wait": fmt.Sprintf("%dms", wait.Milliseconds())}
	err := w.Call(ctx, "POST", "/v1/fetch", body, &answer)
	return answer.Messages, err
}

// Ack says that everything up to these positions is done.
func (w *Worker) Ack(ctx context.Context, positions []Position) ([]Result, error) {
	var answer struct{ Results []Result }
	body := map[string]any{"positions": positions}
	err := w.Call(ctx, "POST", "/v1/ack", body, &answer)
	return answer.Results, err
}

// Nack says that a message failed; it is tried again in its place.
func (w *Worker) Nack(ctx context.Context, position Position, why string) error {
	body := map[string]any{"messages": []Position{position}, "error": why}
	return w.Call(ctx, "POST", "/v1/nack", body, &struct{}{})
}

// Publish publishes by key; with an id it may be repeated.
func (w *Worker) Publish(ctx context.Context, key, id string, payload []byte) (sequence uint64, err error) {
	var answer struct{ Sequence uint64 }
	body := map[string]any{"key": key, "payload": payload}
	if id != "" {
		body["id"] = id
	}
	err = w.Call(ctx, "POST", "/v1/publish", body, &answer)
	return answer.Sequence, err
}

// Call makes any call of docs/application.md.
func (w *Worker) Call(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		written, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(written)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if w.session != "" {
		request.Header.Set("lockstep-session", w.session)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	written, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 if there is none
		refused := &Error{RetryAfter: time.Duration(seconds) * time.Second}
		refused.Passes = response.StatusCode >= 500 || response.StatusCode == http.StatusRequestTimeout
		if json.Unmarshal(written, refused) != nil {
			refused.Code, refused.Message = response.Status, string(written)
		}
		return refused
	}
	return json.Unmarshal(written, answer)
}
