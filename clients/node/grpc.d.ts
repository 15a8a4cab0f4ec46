import type { Calls, FetchFields, Message, Position, Result } from './lockstep.js'

/** A worker over gRPC; `proto` is the folder that holds lockstep/worker/v1/worker.proto. */
export declare class GrpcWorker implements Calls {
  constructor(proto: string, socket?: string, options?: { session?: string; timeout?: number })
  fetch(fields?: FetchFields): Promise<Message[]>
  ack(positions: Position[], fields?: { mode?: 'UP_TO' | 'EACH'; wait?: 'ACCEPTED' | 'COMMITTED' }): Promise<Result[]>
  nack(messages: Position[], error: string, fields?: { delay?: string }): Promise<Result[]>
  status(): Promise<Record<string, unknown>>
  close(): void
}
