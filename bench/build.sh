#!/bin/sh
# Builds what Lockstep is measured beside, into target/bench. What cannot be built here is left out
# with one line, and the bench says so again.
set -u
cd "$(dirname "$0")/.." || exit 1
out=$PWD/target/bench
mkdir -p "$out"

skip() { echo "bench: $1 is left out: $2"; }

if command -v go >/dev/null; then
    (cd bench/pcgroups && CGO_ENABLED=0 go build -trimpath -o "$out/pcgroups" .) || skip pcgroups "its build failed"
else
    skip pcgroups "there is no Go"
fi

if [ ! -e "$out/python/worker_pb2_grpc.py" ]; then
    if python3 -m venv "$out/python" && "$out/python/bin/pip" install -q -r bench/python/requirements.txt; then
        "$out/python/bin/python" -m grpc_tools.protoc -I proto/lockstep/worker/v1 \
            --python_out="$out/python" --grpc_python_out="$out/python" worker.proto
    else
        skip "the application in Python" "pip could not install grpcio"
    fi
fi 2>&1 | grep -v '^\[notice\]'

if [ ! -e "$out/kafka/bench-kafka-1.jar" ] || [ bench/kafka/src/main/java/bench/Peer.java -nt "$out/kafka/bench-kafka-1.jar" ]; then
    if command -v java >/dev/null && command -v mvn >/dev/null; then
        mvn -q -B -f bench/kafka/pom.xml package || skip Kafka "Maven failed"
    else
        skip Kafka "there is no Java, or no Maven"
    fi
fi
