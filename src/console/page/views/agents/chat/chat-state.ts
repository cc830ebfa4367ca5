import { signal, type ReadonlySignal } from "@preact/signals";
import { AbstractChat, DefaultChatTransport, type ChatInit, type ChatState, type ChatStatus, type UIMessage } from "ai";
import { path, toHeaders, toQuery, toUrl } from "../../../server/api.ts";

/** The metadata that the server stores with a message. A message that is being sent or made has none. */
interface MessageMetadata {
  readonly createdAt?: string | null;
  readonly usage?: { readonly inputTokens: number | null; readonly outputTokens: number | null };
  readonly stopped?: boolean;
  /** The person who has written the message, if it is not the user of the conversation who asks the agent. */
  readonly author?: { readonly id: string; readonly name?: string };
  /** The tool calls that have started an execution. */
  readonly executions?: readonly {
    readonly toolCallId: string;
    readonly executionId: string;
    readonly ended?: boolean;
  }[];
}
export type ChatMessage = UIMessage<MessageMetadata>;
export type ChatPart = ChatMessage["parts"][number];

/** The time between two renderings of an answer that is being made. */
const renderMs = 40;

/** The state of a chat, shown by a signal. A word of an answer is shown together with those that follow within 40 ms. */
class SignalState implements ChatState<ChatMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined;
  readonly shown = signal<readonly ChatMessage[]>([]);
  #messages: ChatMessage[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  get messages(): ChatMessage[] {
    return this.#messages;
  }
  set messages(messages: ChatMessage[]) {
    this.#messages = messages;
    this.#show();
  }
  pushMessage = (message: ChatMessage): void => void (this.messages = [...this.#messages, { ...message }]);
  popMessage = (): void => void (this.messages = this.#messages.slice(0, -1));
  replaceMessage = (index: number, message: ChatMessage): void => {
    // The SDK changes its message in place. A copy is what tells the view of the change.
    this.#messages = this.#messages.with(index, { ...message, parts: [...message.parts] });
    this.#timer ??= setTimeout(() => this.#show(), renderMs);
  };
  snapshot = <T>(thing: T): T => structuredClone(thing);

  #show(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.shown.value = this.#messages;
  }
}

/** The AI SDK's chat, with its state in Preact signals. */
export class SignalChat extends AbstractChat<ChatMessage> {
  readonly shown: ReadonlySignal<readonly ChatMessage[]>;

  constructor(init: Omit<ChatInit<ChatMessage>, "messages">) {
    const state = new SignalState();
    super({ ...init, state });
    this.shown = state.shown;
  }
}

interface TransportOptions {
  readonly agentId: string;
  readonly id: string;
  readonly userId: string | undefined;
  /** True if the server has earlier messages: only the last one is sent then. An agent without memory is sent all. */
  isStored(): boolean;
}

/** Creates the requests of a conversation. */
export function createTransport({
  agentId,
  id,
  userId,
  isStored,
}: TransportOptions): DefaultChatTransport<ChatMessage> {
  const api = toUrl(path`/agents/${agentId}/chat`);
  const options = userId === undefined ? {} : { options: { userId } };
  return new DefaultChatTransport({
    api,
    headers: toHeaders,
    prepareSendMessagesRequest: ({ messages, trigger, messageId }) => ({
      body: { id, messages: isStored() ? messages.slice(-1) : messages, trigger, messageId, ...options },
    }),
    prepareReconnectToStreamRequest: () => ({ api: `${api}/${encodeURIComponent(id)}/stream${toQuery({ userId })}` }),
  });
}
