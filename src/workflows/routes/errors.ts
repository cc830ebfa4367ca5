type RouteErrors = Readonly<Record<number, string>>;

export const unknownWorkflow: RouteErrors = { 404: "Workflow not found" };
export const unknownExecution: RouteErrors = { 404: "Workflow or execution not found" };
export const failedExecution = "A step failed";
export const refusedByStep = "A step refused the request";
export const cannotBegin: RouteErrors = {
  503: "Too many executions are running or waiting, too much data is in flight, storage cannot be written, or the server is shutting down",
};
export const cannotStart: RouteErrors = { ...cannotBegin, 507: "Storage is full" };
export const cannotRead: RouteErrors = { 503: "Storage cannot be read" };
export const cannotWrite: RouteErrors = {
  503: "Too much data is in flight, storage cannot be written, or the server is shutting down",
};
export const manyStreams =
  "Too many requests, or too many open streams of the caller; Retry-After has the seconds to wait";
