// Handles the messages of a Lockstep worker in order. Ends well on SIGTERM.
//
//	app -socket /var/run/lockstep/worker.sock
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	lockstep "lockstep.dev/clients/go"
	"lockstep.dev/clients/go/workergrpc"
)

// application is the work itself.
type application struct {
	history   *history
	failEvery int
	handled   int
}

// handle does the work. What it returns an error for is tried again, and nothing overtakes it.
func (a *application) handle(_ context.Context, message lockstep.Message) error {
	if a.history != nil {
		if err := a.history.seen(message); err != nil {
			return err
		}
	} else {
		fmt.Println(message.Partition, message.Sequence, message.Key)
	}
	a.handled++
	if a.failEvery > 0 && a.handled%a.failEvery == 0 && message.Attempt == 1 {
		return errors.New("failing once, as told")
	}
	return nil
}

func main() {
	log.SetFlags(0)
	socket := flag.String("socket", "", "the worker's socket; else LOCKSTEP_SOCKET")
	api := flag.String("api", "http", "http or grpc")
	path := flag.String("log", "", "write a history to this file")
	member := flag.String("member", "member", "the member's name in the history")
	failEvery := flag.Int("fail-every", 0, "fail each so-many-th message once")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	worker, err := dial(*api, *socket)
	if err != nil {
		log.Fatal(err)
	}
	app := &application{failEvery: *failEvery}
	observer := lockstep.Observer{Trouble: func(err error) { log.Print(err) }}
	if *path != "" {
		if app.history, err = open(*path, *member); err != nil {
			log.Fatal(err)
		}
		app.history.observe(&observer)
	}
	lockstep.Consume(ctx, worker, 100, app.handle, observer)
	fmt.Fprintf(os.Stdout, "ended after %d messages\n", app.handled)
}

func dial(api, socket string) (lockstep.Calls, error) {
	switch api {
	case "http":
		return lockstep.Dial(socket, ""), nil
	case "grpc":
		return workergrpc.Dial(socket, "")
	default:
		return nil, fmt.Errorf("-api is http or grpc, not %q", api)
	}
}
