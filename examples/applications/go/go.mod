module lockstep.dev/examples/applications/go

go 1.26.0

replace lockstep.dev/clients/go => ../../../clients/go

require (
	golang.org/x/sys v0.50.0
	lockstep.dev/clients/go v0.0.0-00010101000000-000000000000
)

require (
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/grpc v1.83.2 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
