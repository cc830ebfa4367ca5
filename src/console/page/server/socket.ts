import { socketProtocols, toBackOff, toUrl } from "./api.ts";

interface SocketMessage {
  readonly type: string;
  readonly data?: unknown;
}

export interface SocketOptions {
  onMessage(message: SocketMessage): void;
  /** Called with true when the socket is open, with false when it is lost. */
  onState?(isOpen: boolean): void;
}

/** Opens a WebSocket of the server. Reconnects until the returned function is called. */
export function openSocket(to: string, { onMessage, onState }: SocketOptions): () => void {
  let socket: WebSocket | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;
  let isClosed = false;
  const open = (): void => {
    const url = new URL(toUrl(to), location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(url, socketProtocols());
    socket.addEventListener("open", () => {
      failures = 0;
      onState?.(true);
    });
    socket.addEventListener("message", ({ data }) => onMessage(JSON.parse(String(data)) as SocketMessage));
    socket.addEventListener("close", () => {
      if (isClosed) return;
      onState?.(false);
      timer = setTimeout(open, toBackOff(failures++));
    });
  };
  open();
  return () => {
    isClosed = true;
    clearTimeout(timer);
    socket?.close();
  };
}
