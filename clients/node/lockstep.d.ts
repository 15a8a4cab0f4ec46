/// <reference types="node" />

/** A message's token; the epoch fences writes of former owners. */
export interface Position { partition: number; epoch: number; sequence: number }

/** A message of a partition. Times are RFC 3339. */
export interface Message extends Position {
  stream: string
  subject: string
  key: string
  payload: Buffer
  headers: Record<string, string[]>
  timestamp: string
  attempt: number
  deadline: string
}

/** What became of one position. */
export interface Result extends Position {
  status: 'ACCEPTED' | 'COMMITTED' | 'NOT_OWNED'
  committed: number
}

export interface FetchFields {
  max_messages?: number
  max_wait?: string
  batch_wait?: string
  max_bytes?: number
  partitions?: number[]
}

/** What `consume` needs of a worker, however it is reached. */
export interface Calls {
  fetch(fields?: FetchFields): Promise<Message[]>
  ack(positions: Position[]): Promise<Result[]>
  nack(messages: Position[], error: string): Promise<Result[]>
}

export declare class Refused extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string
  readonly retryAfter: number
  readonly passes: boolean
  constructor(status: number, problem: { code?: string; message?: string; hint?: string }, retryAfter?: number)
}

export declare class Worker implements Calls {
  constructor(socket?: string, options?: { session?: string; timeout?: number })
  fetch(fields?: FetchFields): Promise<Message[]>
  ack(positions: Position[], fields?: { mode?: 'UP_TO' | 'EACH'; wait?: 'ACCEPTED' | 'COMMITTED' }): Promise<Result[]>
  nack(messages: Position[], error: string, fields?: { delay?: string }): Promise<Result[]>
  publish(
    payload: string | Uint8Array,
    fields: { key?: string; subject?: string; id?: string; derived_from?: Position; headers?: Record<string, string | string[]> },
  ): Promise<{ stream: string; sequence: number; partition?: number; duplicate: boolean }>
  status(): Promise<Record<string, unknown>>
  call(method: string, path: string, body?: unknown): Promise<any>
  close(): void
}

/** Told what `consume` does, to count or to log. */
export interface Observer {
  acking?(positions: Position[]): void
  acked?(results: Result[]): void
  nacking?(position: Position, error: unknown): void
  trouble?(error: unknown): void
}

export declare function socketOf(named?: string): string
export declare function positionOf(message: Position): Position
export declare function consume(
  worker: Calls,
  handle: (message: Message) => unknown,
  options?: { signal?: AbortSignal; observer?: Observer } & FetchFields,
): Promise<void>
