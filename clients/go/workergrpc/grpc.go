// Package workergrpc has the calls of package lockstep over gRPC. The package workerv1 has all of the
// service, Consume's stream included.
package workergrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockstep "lockstep.dev/clients/go"
	"lockstep.dev/clients/go/workerv1"
)

// Timeout bounds a call beyond the wait that it asks for: a worker that hangs is tried again.
const Timeout = time.Minute

// Worker is a connection to a worker. It may be used by several goroutines, but then each that
// fetches needs a Worker with a session of its own.
type Worker struct {
	session string
	Client  workerv1.WorkerClient
	conn    *grpc.ClientConn
}

var _ lockstep.Calls = (*Worker)(nil)

// Dial names a worker's socket and a session, as lockstep.Dial does.
func Dial(socket, session string) (*Worker, error) {
	conn, err := grpc.NewClient("unix:"+lockstep.Socket(socket),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(96<<20))) // a fetch has up to 64 MiB of payloads
	if err != nil {
		return nil, err
	}
	return &Worker{session, workerv1.NewWorkerClient(conn), conn}, nil
}

// Close closes the connection.
func (w *Worker) Close() error { return w.conn.Close() }

func (w *Worker) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.session != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "lockstep-session", w.session)
	}
	return context.WithTimeout(ctx, Timeout)
}

// Fetch takes messages, and waits up to `wait` for the first.
func (w *Worker) Fetch(ctx context.Context, most int, wait time.Duration) ([]lockstep.Message, error) {
	ctx, done := w.context(ctx)
	defer done()
	count := uint32(most)
	answer, err := w.Client.Fetch(ctx, &workerv1.FetchRequest{MaxMessages: &count, MaxWait: durationpb.New(wait)})
	if err != nil {
		return nil, refusal(err)
	}
	messages := make([]lockstep.Message, len(answer.Messages))
	for i, m := range answer.Messages {
		headers := make(map[string][]string, len(m.Headers))
		for name, values := range m.Headers {
			headers[name] = values.Values
		}
		messages[i] = lockstep.Message{
			Position: lockstep.Position{Partition: m.Partition, Epoch: m.Epoch, Sequence: m.Sequence},
			Stream:   m.Stream, Subject: m.Subject, Key: m.Key, Payload: m.Payload, Headers: headers,
			Timestamp: m.Timestamp.AsTime(), Attempt: m.Attempt, Deadline: m.Deadline.AsTime(),
		}
	}
	return messages, nil
}

// Ack says that everything up to these positions is done.
func (w *Worker) Ack(ctx context.Context, positions []lockstep.Position) ([]lockstep.Result, error) {
	ctx, done := w.context(ctx)
	defer done()
	request := &workerv1.AckRequest{}
	for _, position := range positions {
		request.Positions = append(request.Positions, token(position))
	}
	answer, err := w.Client.Ack(ctx, request)
	if err != nil {
		return nil, refusal(err)
	}
	results := make([]lockstep.Result, len(answer.Results))
	for i, r := range answer.Results {
		position := lockstep.Position{Partition: r.Partition, Epoch: r.Epoch, Sequence: r.Sequence}
		results[i] = lockstep.Result{Position: position, Status: r.Status.String(), Committed: r.Committed}
	}
	return results, nil
}

// Nack says that a message failed; it is tried again in its place.
func (w *Worker) Nack(ctx context.Context, position lockstep.Position, why string) error {
	ctx, done := w.context(ctx)
	defer done()
	request := &workerv1.NackRequest{Messages: []*workerv1.Position{token(position)}, Error: why}
	_, err := w.Client.Nack(ctx, request)
	return refusal(err)
}

func token(p lockstep.Position) *workerv1.Position {
	return &workerv1.Position{Partition: p.Partition, Epoch: p.Epoch, Sequence: p.Sequence}
}

// refusal makes a status with an ErrorDetail a lockstep.Error; without one, nobody answered.
func refusal(err error) error {
	for _, detail := range status.Convert(err).Details() {
		if d, ok := detail.(*workerv1.ErrorDetail); ok {
			code := status.Code(err)
			return &lockstep.Error{
				Code: d.Code, Message: d.Message, Hint: d.Hint,
				Passes:     code == codes.Unavailable || code == codes.DeadlineExceeded,
				RetryAfter: d.RetryAfter.AsDuration(),
			}
		}
	}
	return err
}
