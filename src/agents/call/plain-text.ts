import { ServeError } from "../../core/error.ts";

/** Makes the message of a `ServeError` its text, without the name of the class: the SDK shows models the text of an error. */
export function withPlainText(error: unknown): unknown {
  if (error instanceof ServeError) Reflect.defineProperty(error, "toString", { value: () => error.message });
  return error;
}

/** Settles like the result of a tool. */
export function withPlainErrors(run: () => unknown): unknown {
  try {
    const result = run();
    if (!(result instanceof Promise)) return result;
    return result.catch((error: unknown) => {
      throw withPlainText(error);
    });
  } catch (error) {
    throw withPlainText(error);
  }
}
