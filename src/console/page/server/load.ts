import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "./api.ts";
import { onChange, reconnects, type ExecutionChange } from "./live.ts";
import { createThrottle } from "./throttle.ts";
import { toApiError } from "../session.ts";

export interface Loaded<T> {
  /** The last value that was read. It stays while it is read again, and if that fails. */
  readonly value: T | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  reload(): void;
}

/**
 * Reads a value when one of `inputs` changes, after a reconnect, and when `reload` is called. At most one read runs. A call in
 * the meantime leads to one more read after it.
 */
export function useLoaded<T>(read: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, "reload">>({
    value: undefined,
    error: undefined,
    isLoading: true,
  });
  const reading = useRef<{ again: boolean; controller: AbortController } | undefined>(undefined);
  const latest = useRef(read);
  latest.current = read;

  const reload = useCallback(() => {
    if (reading.current) return void (reading.current.again = true);
    const mine = { again: false, controller: new AbortController() };
    reading.current = mine;
    setState((before) => ({ ...before, isLoading: true }));
    const { signal } = mine.controller;
    const end = (change: (before: Omit<Loaded<T>, "reload">) => Omit<Loaded<T>, "reload">): void => {
      if (signal.aborted) return;
      reading.current = undefined;
      setState(change);
      if (mine.again) reload();
    };
    latest.current(signal).then(
      (value) => end(() => ({ value, error: undefined, isLoading: false })),
      (error: unknown) => end((before) => ({ ...before, error: toApiError(error), isLoading: false })),
    );
  }, []);

  const epoch = reconnects.value;
  useEffect(() => {
    setState((before) => ({ ...before, error: undefined }));
    reload();
    return () => {
      reading.current?.controller.abort();
      reading.current = undefined;
    };
  }, [...inputs, epoch]);
  return { ...state, reload };
}

/** Reads again at this interval while the page is visible. */
export function usePolling(reload: () => void, intervalMs: number, isOn = true): void {
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => !document.hidden && reload(), intervalMs);
    return () => clearInterval(timer);
  }, [isOn]);
}

/** Reads again after each wanted change, at most once in this interval. */
export function useChanges(
  reload: () => void,
  intervalMs: number,
  isWanted: (change: ExecutionChange) => boolean,
): void {
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => {
    const throttle = createThrottle(() => latest.current(), intervalMs);
    const stop = onChange((change) => {
      if (isWanted(change)) throttle.call();
    });
    return () => {
      stop();
      throttle.close();
    };
  }, []);
}
