"""The application in Python over gRPC `Consume`, into a counter, with acknowledgements.

    consume.py SOCKET WINDOW MESSAGES SECONDS

Prints one line of JSON: what it counted, what of it came first, and the seconds from then on. The
modules `worker_pb2` and `worker_pb2_grpc` are made by grpcio-tools from the worker's protobuf.
"""

import json
import queue
import sys
import time

import grpc

import worker_pb2 as pb
import worker_pb2_grpc as rpc

# The name that gRPC makes of a socket's path is refused by HTTP/2 servers that check it.
OPTIONS = [("grpc.max_receive_message_length", 16 << 20), ("grpc.default_authority", "worker")]


def main(socket, window, most, within):
    channel = grpc.insecure_channel(f"unix:{socket}", options=OPTIONS)
    out = queue.SimpleQueue()
    start = pb.ConsumeRequest.Start(credit_messages=window, credit_bytes=64 << 20)
    out.put(pb.ConsumeRequest(start=start))
    frames = rpc.WorkerStub(channel).Consume(iter(out.get, None))
    count, at_first, first, last, newest = 0, 0, 0.0, 0.0, {}
    for frame in frames:
        if frame.WhichOneof("frame") != "batch":
            continue
        messages = frame.batch.messages
        last = time.monotonic()
        if not count:
            first, at_first = last, len(messages)
        count += len(messages)
        in_batch, size = {}, 0
        for message in messages:
            in_batch[message.partition] = message
            size += len(message.payload) + len(message.subject)
        newest.update(in_batch)
        out.put(pb.ConsumeRequest(ack=acknowledgement(in_batch)))
        credit = pb.ConsumeRequest.Credit(messages=len(messages), bytes=size)
        out.put(pb.ConsumeRequest(credit=credit))
        if count >= most or last - first >= within:
            break
    last_words = acknowledgement(newest)
    last_words.wait = pb.AckRequest.COMMITTED
    out.put(pb.ConsumeRequest(ack=last_words))
    for frame in frames:
        if frame.WhichOneof("frame") == "ack_result":
            if any(r.status != pb.AckResult.COMMITTED for r in frame.ack_result.results):
                sys.exit(f"not committed: {frame}")
            break
    print(json.dumps({"messages": count, "at_first": at_first, "seconds": last - first}))
    out.put(None)


def acknowledgement(messages):
    positions = [
        pb.Position(partition=m.partition, epoch=m.epoch, sequence=m.sequence)
        for m in messages.values()
    ]
    return pb.AckRequest(positions=positions)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
