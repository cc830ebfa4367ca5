import { ApiError } from "../../../server/api.ts";

/** An error of a turn, in the words of the server. */
export interface ChatProblem {
  readonly message: string;
  /** The message of the provider, which the server shows in `dev`. */
  readonly detail?: string | undefined;
  readonly status?: number | undefined;
}

/** Returns true if the connection has failed, and not the turn: the turn may continue at the server. */
export const isLostConnection = (error: Error): boolean => error instanceof TypeError;

/** Returns true if the server cannot answer now, and may later. */
export const isPassing = ({ status }: ApiError): boolean => status === 0 || status === 429 || status >= 502;

/** Reads an error of the AI SDK. Its message is the whole response body. */
export function toProblem(error: Error): ChatProblem {
  if (error instanceof ApiError) return { message: error.message, status: error.status };
  const { statusCode, responseBody } = error as Error & { statusCode?: number; responseBody?: string };
  const { error: message, detail } = readBody(responseBody);
  return {
    message: typeof message === "string" ? message : error.message,
    detail: typeof detail === "string" ? detail : undefined,
    status: statusCode,
  };
}

function readBody(text: string | undefined): { error?: unknown; detail?: unknown } {
  try {
    return (JSON.parse(text ?? "null") as { error?: unknown } | null) ?? {};
  } catch {
    return {};
  }
}
