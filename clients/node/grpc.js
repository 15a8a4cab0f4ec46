// The calls of lockstep.js over gRPC, from the protobuf source itself: nothing is generated.

import grpc from '@grpc/grpc-js'
import loader from '@grpc/proto-loader'
import { Refused, socketOf } from './lockstep.js'

const LARGEST_ANSWER = 96 << 20 // a fetch has up to 64 MiB of payloads

/** HTTP's numbers for the statuses that a worker answers with. */
const HTTP_STATUS = {
  [grpc.status.INVALID_ARGUMENT]: 400,
  [grpc.status.UNIMPLEMENTED]: 404,
  [grpc.status.DEADLINE_EXCEEDED]: 408,
  [grpc.status.ABORTED]: 409,
  [grpc.status.RESOURCE_EXHAUSTED]: 413,
  [grpc.status.UNAVAILABLE]: 503,
}

/** A worker over gRPC. Readers that share a socket each need a GrpcWorker with a session of its own. */
export class GrpcWorker {
  #client
  #session
  #timeout
  #detail

  /** `proto` is the folder that holds lockstep/worker/v1/worker.proto. */
  constructor(proto, socket, { session, timeout = 60_000 } = {}) {
    const definition = loader.loadSync('lockstep/worker/v1/worker.proto', {
      includeDirs: [proto],
      keepCase: true,
      longs: Number, // epochs and sequences stay far below 2^53
      enums: String,
      defaults: true,
    })
    const { Worker } = grpc.loadPackageDefinition(definition).lockstep.worker.v1
    this.#detail = definition['lockstep.worker.v1.ErrorDetail']
    this.#client = new Worker(`unix:${socketOf(socket)}`, grpc.credentials.createInsecure(), {
      'grpc.max_receive_message_length': LARGEST_ANSWER,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1000,
    })
    this.#session = session
    this.#timeout = timeout
  }

  /** Takes messages; each one's payload is a Buffer. */
  async fetch({ max_wait, batch_wait, ...fields } = {}) {
    const request = { ...fields, max_wait: duration(max_wait), batch_wait: duration(batch_wait) }
    const { messages } = await this.#call('Fetch', request)
    return messages.map((message) => ({
      ...message,
      headers: Object.fromEntries(Object.entries(message.headers).map(([name, { values }]) => [name, values])),
      timestamp: time(message.timestamp),
      deadline: time(message.deadline),
    }))
  }

  /** Says that everything up to these positions is done; one result for each. */
  async ack(positions, fields = {}) {
    return (await this.#call('Ack', { positions, ...fields })).results
  }

  /** Says that these messages failed; they are tried again in their place. */
  async nack(messages, error, { delay } = {}) {
    return (await this.#call('Nack', { messages, error, delay: duration(delay) })).results
  }

  /** What the member is and holds. */
  status() {
    return this.#call('Status', {})
  }

  /** Closes the connection. */
  close() {
    this.#client.close()
  }

  #call(name, request) {
    const metadata = new grpc.Metadata()
    if (this.#session) metadata.set('lockstep-session', this.#session)
    const options = { deadline: Date.now() + this.#timeout }
    return new Promise((resolve, reject) => {
      this.#client[name](request, metadata, options, (error, answer) => {
        if (error) reject(this.#refusal(error))
        else resolve(answer)
      })
    })
  }

  /** A status whose details hold an ErrorDetail is an answer; without one, nobody answered. */
  #refusal(error) {
    const [details] = error.metadata?.get('grpc-status-details-bin') ?? []
    if (!details) return error
    const detail = this.#detail.deserialize(onlyDetail(details))
    const { seconds = 0, nanos = 0 } = detail.retry_after ?? {}
    return new Refused(HTTP_STATUS[error.code] ?? 500, detail, seconds * 1000 + nanos / 1e6)
  }
}

/** `5s`, `250ms`, `2m`, `1h` as protobuf has durations. */
function duration(text) {
  if (text === undefined) return undefined
  const [, number, unit] = /^(\d+)(ms|s|m|h)$/.exec(text) ?? []
  if (unit === undefined) throw new TypeError(`${JSON.stringify(text)} is no duration: write 250ms, 5s, 2m or 1h`)
  const milliseconds = Number(number) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[unit]
  return { seconds: Math.floor(milliseconds / 1000), nanos: (milliseconds % 1000) * 1e6 }
}

function time(stamp) {
  return stamp ? new Date(stamp.seconds * 1000 + stamp.nanos / 1e6).toISOString() : undefined
}

/** The ErrorDetail's bytes within a google.rpc.Status: its `details` (3), an Any with a `value` (2). */
function onlyDetail(status) {
  return field(field(status, 3), 2)
}

/** The first field of this number in a protobuf message that has none but varints and bytes. */
function field(bytes, wanted) {
  let at = 0
  const varint = () => {
    let value = 0
    for (let shift = 1; at < bytes.length; shift *= 128) {
      const byte = bytes[at++]
      value += (byte & 127) * shift
      if (byte < 128) break
    }
    return value
  }
  while (at < bytes.length) {
    const tag = varint()
    const length = varint() // of a varint field: its value
    if ((tag & 7) !== 2) continue
    if (tag >> 3 === wanted) return bytes.subarray(at, at + length)
    at += length
  }
  return Buffer.alloc(0)
}
