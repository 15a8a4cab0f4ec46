// Handles the messages of a Lockstep worker in order. Ends well on SIGTERM.
//
//     node app.js --socket /var/run/lockstep/worker.sock

import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { consume, Worker } from 'lockstep-client'
import { GrpcWorker } from 'lockstep-client/grpc'
import { History } from './history.js'

const PROTO = fileURLToPath(new URL('../../../proto', import.meta.url))

const { values: options } = parseArgs({
  options: {
    socket: { type: 'string' }, // else LOCKSTEP_SOCKET
    api: { type: 'string', default: 'http' }, // or grpc
    log: { type: 'string' }, // write a history to this file
    member: { type: 'string', default: 'member' }, // the member's name in the history
    'fail-every': { type: 'string', default: '0' }, // fail each so-many-th message once
  },
})
const failEvery = Number(options['fail-every'])
const history = options.log ? new History(options.log, options.member) : undefined
let handled = 0

/** The work itself. What it throws on is tried again, and nothing overtakes it. */
async function handle(message) {
  if (history) history.seen(message)
  else console.log(message.partition, message.sequence, message.key)
  handled += 1
  if (failEvery && handled % failEvery === 0 && message.attempt === 1) throw new Error('failing once, as told')
}

const stop = new AbortController()
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => stop.abort())
const worker = options.api === 'grpc' ? new GrpcWorker(PROTO, options.socket) : new Worker(options.socket)
const observer = history ?? { trouble: (error) => console.error(String(error)) }
await consume(worker, handle, { signal: stop.signal, observer, max_messages: 100 })
worker.close()
console.log(`ended after ${handled} messages`)
