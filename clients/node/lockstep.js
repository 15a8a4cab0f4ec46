// A thin client for the socket of a Lockstep worker. It needs nothing but Node.
//
//     const worker = new Worker('/var/run/lockstep/worker.sock')
//     await consume(worker, async (message) => { ... }, { signal })
//
// Fields and answers are those of docs/application.md. lockstep.d.ts has the types.

import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** The worker answered with an error. Any other error means that there was no answer. */
export class Refused extends Error {
  constructor(status, { code = 'unknown', message = '', hint = '' }, retryAfter = 0) {
    super(`${code} (${status}): ${message}; ${hint}`)
    this.status = status
    this.code = code
    this.hint = hint
    this.retryAfter = retryAfter // milliseconds
  }

  /** Whether the same call may succeed later. */
  get passes() {
    return this.status >= 500 || this.status === 408
  }
}

/** The socket to use: the one that is named, the environment's, or the injected worker's. */
export function socketOf(named) {
  return named || process.env.LOCKSTEP_SOCKET || '/var/run/lockstep/worker.sock'
}

/** A worker over HTTP. Readers that share a socket each need a Worker with a session of its own. */
export class Worker {
  #socket
  #headers
  #agent = new http.Agent({ keepAlive: true })
  #timeout

  constructor(socket, { session, timeout = 60_000 } = {}) {
    this.#socket = socketOf(socket)
    this.#headers = { 'content-type': 'application/json' }
    if (session) this.#headers['lockstep-session'] = session
    this.#timeout = timeout
  }

  /** Takes messages; each one's payload is a Buffer. */
  async fetch(fields = {}) {
    const { messages } = await this.call('POST', '/v1/fetch', fields)
    return messages.map((message) => ({ ...message, payload: Buffer.from(message.payload, 'base64') }))
  }

  /** Says that everything up to these positions is done; one result for each. */
  async ack(positions, fields = {}) {
    return (await this.call('POST', '/v1/ack', { positions, ...fields })).results
  }

  /** Says that these messages failed; they are tried again in their place. */
  async nack(messages, error, fields = {}) {
    return (await this.call('POST', '/v1/nack', { messages, error, ...fields })).results
  }

  /** Publishes bytes, by `key` or `subject`; name an `id` to be able to repeat it. */
  publish(payload, fields) {
    const encoded = Buffer.from(payload).toString('base64')
    return this.call('POST', '/v1/publish', { payload: encoded, ...fields })
  }

  /** What the member is and holds. */
  status() {
    return this.call('GET', '/v1/status')
  }

  /** One call; the answer. */
  async call(method, path, body) {
    const content = body === undefined ? undefined : JSON.stringify(body)
    const { status, headers, text } = await this.#exchange(method, path, content)
    if (status === 200) return JSON.parse(text)
    const retryAfter = Number(headers['retry-after'] ?? 0) * 1000
    throw new Refused(status, problemOf(text), retryAfter)
  }

  /** Closes idle connections. */
  close() {
    this.#agent.destroy()
  }

  #exchange(method, path, content) {
    return new Promise((resolve, reject) => {
      const headers = { ...this.#headers }
      if (content !== undefined) headers['content-length'] = Buffer.byteLength(content)
      const signal = AbortSignal.timeout(this.#timeout)
      const options = { socketPath: this.#socket, agent: this.#agent, method, path, headers, signal }
      const request = http.request(options, (response) => {
        const parts = []
        response.on('data', (part) => parts.push(part))
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(parts).toString()
          resolve({ status: response.statusCode, headers: response.headers, text })
        })
      })
      request.on('error', reject)
      request.end(content)
    })
  }
}

function problemOf(text) {
  try {
    return JSON.parse(text)
  } catch {
    return { message: text }
  }
}

/** The token of a message: what `ack` and `nack` take. */
export function positionOf({ partition, epoch, sequence }) {
  return { partition, epoch, sequence }
}

/**
 * Hands over every message in order, and acknowledges those for which `handle` resolved.
 *
 * A message for which it rejected is given back; what follows it in its partition waits. No worker,
 * a worker that starts anew, a group that is not there yet: all are waited for. Once `signal` is
 * aborted, what was fetched is finished and acknowledged, and that is all: fetch no more at a time
 * (`max_messages`) than can be done while the application ends.
 */
export async function consume(worker, handle, { signal, observer = {}, ...fields } = {}) {
  const stopping = () => signal?.aborted ?? false
  const told = { stopping, observer }
  while (!stopping()) {
    const fetch = () => worker.fetch({ max_wait: '1s', ...fields })
    await handleAll(worker, (await untilAnswered(fetch, told, 0)) ?? [], handle, told)
  }
}

async function handleAll(worker, messages, handle, told) {
  const done = new Map()
  const failed = new Map()
  let flushed = performance.now()
  for (const message of messages) {
    const position = positionOf(message)
    if (failed.has(position.partition)) continue
    try {
      await handle(message)
      done.set(position.partition, position)
    } catch (error) {
      failed.set(position.partition, { position, error })
    }
    if (performance.now() - flushed > 1000) { // slow work is acknowledged as it goes
      await acknowledge(worker, done, told)
      flushed = performance.now()
    }
  }
  await acknowledge(worker, done, told)
  for (const { position, error } of failed.values()) {
    told.observer.nacking?.(position, error)
    await untilAnswered(() => worker.nack([position], String(error)), told)
  }
}

async function acknowledge(worker, done, told) {
  const positions = [...done.values()]
  done.clear()
  if (positions.length === 0) return
  const attempt = () => {
    told.observer.acking?.(positions)
    return worker.ack(positions)
  }
  told.observer.acked?.((await untilAnswered(attempt, told)) ?? [])
}

/** Repeats a call until it is answered; while stopping, only so many times. */
async function untilAnswered(attempt, { stopping, observer }, lastTries = 20) {
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      observer.trouble?.(error)
      if (stopping() && lastTries-- <= 0) return undefined
      const refused = error instanceof Refused ? error : undefined
      // What time does not heal must not become a busy loop.
      await sleep(refused?.passes === false ? 1000 : Math.min(Math.max(refused?.retryAfter ?? 0, 100), 1000))
      if (refused?.passes === false) return undefined
    }
  }
}
