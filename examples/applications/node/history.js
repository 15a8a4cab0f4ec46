import fs from 'node:fs'
import { positionOf } from 'lockstep-client'

/** What was seen and acknowledged, as the history checker in e2e/ reads it. */
export class History {
  #file
  #who
  #acks = 0
  #pending = []

  constructor(path, member) {
    this.#file = fs.openSync(path, 'a')
    this.#who = { member, session: `${member}-${process.pid}-${Date.now()}` }
  }

  seen(message) {
    const { key, n } = JSON.parse(message.payload.toString())
    this.#write('seen', { ...positionOf(message), key, n, attempt: message.attempt })
  }

  acking(positions) {
    this.#pending = positions.map((position) => this.#numbered(position))
    for (const ack of this.#pending) this.#write('acking', ack)
  }

  acked(results) {
    results.forEach(({ status }, i) => this.#write(status === 'NOT_OWNED' ? 'refused' : 'acked', this.#pending[i]))
  }

  nacking(position) {
    this.#write('nacking', this.#numbered(position))
  }

  trouble(error) {
    console.error(String(error))
  }

  #numbered(position) {
    this.#acks += 1
    return { ack: this.#acks, ...position }
  }

  /** One write per line, so that what a killed process wrote is there. */
  #write(what, fields) {
    const line = JSON.stringify({ what, ...this.#who, ...fields, at: 0 })
    // The time exceeds what a double holds exactly; therefore it is put in as text.
    fs.writeSync(this.#file, `${line.slice(0, -2)}${boottime()}}\n`)
  }
}

// Histories are in CLOCK_BOOTTIME. Node reads CLOCK_MONOTONIC, which differs by the time that the
// machine was suspended; /proc/uptime tells, to a hundredth of a second.
const uptime = Math.round(Number(fs.readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1e9)
const ahead = BigInt(uptime) - process.hrtime.bigint()
const suspended = ahead > 100_000_000n ? ahead : 0n

function boottime() {
  return process.hrtime.bigint() + suspended
}
