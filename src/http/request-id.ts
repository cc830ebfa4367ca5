const prefix = crypto.randomUUID().slice(0, 8);
let count = 0;

/** Returns the id of the next request. Every response has one, also to a request that no route gets. */
export const nextRequestId = (): string => `${prefix}-${(++count).toString(36)}`;

/** Returns the header with the id of a request. */
export const requestIdHeader = (id: string = nextRequestId()): [name: string, value: string] => ["x-request-id", id];
