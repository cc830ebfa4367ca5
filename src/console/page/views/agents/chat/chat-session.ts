import { computed, signal, type ReadonlySignal } from "@preact/signals";
import type { FileUIPart } from "ai";
import { conversationUser } from "../../../acting-user.ts";
import { ApiError, ask, path, toQuery } from "../../../server/api.ts";
import { toApiError } from "../../../session.ts";
import { isLostConnection, isPassing, toProblem, type ChatProblem } from "./chat-problem.ts";
import { createTransport, SignalChat, type ChatMessage, type ChatPart } from "./chat-state.ts";
import { conversationChanges, isNewConversation, wasStored, type Conversation } from "../conversation.ts";
import { mergeMessages, readConversation, toMark, type OpenConversation } from "./open-conversation.ts";
import { openClientCalls } from "../message/tool-parts.ts";

/** The result of a tool that the client runs. */
export type ToolOutput = { readonly output: unknown } | { readonly errorText: string };

type Phase =
  /** The conversation is read for the first time. */
  | "opening"
  | "ready"
  /** A turn runs. */
  | "busy"
  /** The conversation does not exist any more, or may not be read. */
  | "closed";

/** Interval of the checks for turns that another tab or the server itself started. */
const checkMs = 2_000;
/** Interval while earlier messages are shown: each check reads a page of them. */
const longCheckMs = 10_000;

/**
 * One conversation that is open in the page.
 *
 * S1: The server knows the messages. They are read again after each turn, also after one that has failed.
 * S2: At most one thing is under way: a request of the user, or the reading of a turn (`#follow`).
 * S3: A turn that is read again replaces what was shown of it, because it has the same message id.
 */
export class ChatSession {
  readonly phase = signal<Phase>("opening");
  /** True while the server cannot be reached. */
  readonly isLost = signal(false);
  readonly problem = signal<ChatProblem | undefined>(undefined);
  readonly conversation = signal<Pick<Conversation, "title" | "createdAt" | "isOwn"> | undefined>(undefined);
  readonly hasMore = signal(false);
  /** The finish reasons of the answers that this page has seen, by message id. */
  readonly finishReasons = signal<Readonly<Record<string, string>>>({});
  /** Results of client tools. They wait for the results of the other calls. */
  readonly outputs = signal<Readonly<Record<string, ToolOutput>>>({});
  readonly messages: ReadonlySignal<readonly ChatMessage[]>;
  /** True if the last message is one of the user, and no answer is being made. */
  readonly isUnanswered: ReadonlySignal<boolean>;
  /** True for a conversation of another user. Messages are added to it in the name of a person, and ask no agent. */
  readonly isOther: ReadonlySignal<boolean>;
  readonly #agentId: string;
  readonly #id: string;
  /** The user of the conversation. Undefined: the caller. */
  readonly #userId = conversationUser();
  readonly #chat: SignalChat;
  /** The message that was sent last, until the server has it. */
  #sent: string | undefined;
  #again: (() => Promise<void>) | undefined;
  /** The last answer of the server about the conversation. */
  #mark = "";
  #lastCheck = 0;
  #following: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(agentId: string, id: string) {
    this.#agentId = agentId;
    this.#id = id;
    this.#chat = new SignalChat({
      id,
      transport: createTransport({ agentId, id, userId: this.#userId, isStored: () => this.#mark !== "" }),
      onError: (error) => this.#onError(error),
      onFinish: ({ message, finishReason }) => {
        if (finishReason) this.finishReasons.value = { ...this.finishReasons.value, [message.id]: finishReason };
      },
    });
    this.messages = this.#chat.shown;
    this.isUnanswered = computed(() => {
      const last = this.messages.value.at(-1);
      return this.phase.value === "ready" && last?.role === "user" && !last.metadata?.author;
    });
    this.isOther = computed(() => this.conversation.value?.isOwn === false);
  }

  /** Opens the conversation, and checks it for changes until `close` is called. */
  open(): void {
    if (isNewConversation(this.#agentId, this.#id)) this.phase.value = "ready";
    else void this.#follow();
    const timer = setInterval(() => {
      const interval = this.hasMore.value ? longCheckMs : checkMs;
      if (performance.now() - this.#lastCheck >= interval) void this.check();
    }, checkMs);
    const onVisible = (): void => void (document.hidden || this.check());
    document.addEventListener("visibilitychange", onVisible);
    this.#closing.signal.addEventListener("abort", () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", onVisible);
      void this.#chat.stop(); // ends the reading only: the turn continues
    });
  }
  close(): void {
    this.#closing.abort();
  }

  send(text: string, files: readonly FileUIPart[]): Promise<void> {
    if (this.isOther.value) return this.#request(() => this.#post("messages", { text }));
    const id = this.#chat.generateId();
    // A message that the server has refused is replaced by this one.
    this.#chat.messages = this.#chat.messages.filter((message) => message.id !== this.#sent);
    return this.#request(() => this.#chat.sendMessage({ id, role: "user", parts: toParts(text, files) }), id);
  }
  /** Posts to a route of the conversation. */
  async #post(name: "messages" | "stop", body: object): Promise<void> {
    const to = path`/agents/${this.#agentId}/conversations/${this.#id}/${name}` + toQuery({ userId: this.#userId });
    await ask(to, { body });
  }
  /** Replaces a message of the user, and all messages after it. */
  edit(messageId: string, text: string, files: readonly FileUIPart[]): Promise<void> {
    return this.#request(() => this.#chat.sendMessage({ role: "user", parts: toParts(text, files), messageId }));
  }
  regenerate(messageId: string): Promise<void> {
    return this.#request(() => this.#chat.regenerate({ messageId }));
  }
  /** Repeats what has failed last, or asks again for the answer to the last message. */
  tryAgain(): Promise<void> {
    const isUser = this.messages.value.at(-1)?.role === "user";
    return this.#request(isUser || !this.#again ? () => this.#chat.regenerate() : this.#again, this.#sent);
  }

  /** Keeps the result of a tool that the client runs. It is sent when all such calls of the answer have one. */
  async giveOutput(toolCallId: string, output: ToolOutput): Promise<void> {
    this.outputs.value = { ...this.outputs.value, [toolCallId]: output };
    const open = openClientCalls(this.messages.value.at(-1));
    const outputs = this.outputs.value;
    if (!open.every((call) => call.toolCallId in outputs)) return;
    this.outputs.value = {};
    const send = async (): Promise<void> => {
      for (const call of open) {
        const given = outputs[call.toolCallId];
        if (given && "output" in given) await this.#chat.addToolOutput({ ...call, output: given.output as never });
        else if (given) await this.#chat.addToolOutput({ ...call, ...given, state: "output-error" });
      }
      await this.#chat.sendMessage();
    };
    await this.#request(send);
  }

  /** Decides a tool call that waits for an approval. The answer is continued when all of its calls are decided. */
  async decide(approvalId: string, approved: boolean, reason: string): Promise<void> {
    try {
      await ask(path`/approvals/${approvalId}` + toQuery({ userId: this.#userId }), {
        body: { approved, ...(reason !== "" && { reason }) },
        headers: { prefer: "respond-async" },
      });
    } finally {
      void this.refresh(); // also if another person was faster
    }
  }

  /** Reads the conversation again. */
  async refresh(): Promise<void> {
    await this.#following;
    await this.#follow();
  }

  /** Stops the turn at the server. To end the reading alone would leave it running. */
  async stop(): Promise<void> {
    const messageId = this.messages.value.at(-1)?.id;
    try {
      await this.#post("stop", { messageId });
    } catch (error) {
      if (toApiError(error).status !== 409) throw error; // it ended by itself
    }
    await this.#chat.stop();
  }

  /** Shows the page of messages before the first one. */
  async showEarlier(): Promise<void> {
    const [first] = this.#chat.messages;
    const { messages, hasMore } = await this.#read(first?.id);
    if (this.#chat.messages[0]?.id !== first?.id) return;
    this.#chat.messages = [...messages, ...this.#chat.messages];
    this.hasMore.value = hasMore;
  }

  /** Checks for a turn that this page has not started: of another tab, or after a decision or the end of an execution. */
  async check(): Promise<void> {
    if (this.phase.value !== "ready" || document.hidden || isNewConversation(this.#agentId, this.#id)) return;
    this.#lastCheck = performance.now();
    try {
      // Before the first message there is none: the response is short.
      const found = await this.#read(this.#chat.messages.find(({ id }) => id !== this.#sent)?.id);
      if (toMark(found) === this.#mark || this.phase.value !== "ready") return;
    } catch (error) {
      if (isPassing(toApiError(error))) return; // the page says that the connection is lost
    }
    await this.#follow();
  }

  /** Runs a request of the user, then reads what the server has made of it. */
  async #request(action: () => Promise<void>, sent?: string): Promise<void> {
    if (this.phase.value !== "ready") return;
    this.phase.value = "busy";
    await this.#following;
    this.phase.value = "busy";
    this.problem.value = undefined;
    this.#sent = sent;
    this.#again = action;
    try {
      await action();
    } catch (error) {
      this.#onError(error as Error);
    }
    await this.#follow();
  }

  #onError(error: Error): void {
    if (isLostConnection(error)) this.isLost.value = true;
    else this.problem.value = toProblem(error);
  }

  /** Reads the conversation, and the turns that run in it, until none does. Continues when the connection was lost. */
  #follow(): Promise<void> {
    this.#following ??= this.#readUntilEnd().finally(() => (this.#following = undefined));
    return this.#following;
  }
  async #readUntilEnd(): Promise<void> {
    const { signal: until } = this.#closing;
    for (let failures = 0; !until.aborted; failures++) {
      await new Promise((resolve) => setTimeout(resolve, failures === 0 ? 0 : Math.min(125 * 2 ** failures, 5_000)));
      if (until.aborted) return;
      const found = await this.#read().catch(toApiError);
      if (until.aborted) return;
      if (found instanceof ApiError) {
        if (!isPassing(found)) return this.#onUnread(found);
        this.isLost.value = true;
        continue;
      }
      this.isLost.value = false;
      this.#take(found);
      if (!found.running) return this.#settle();
      this.phase.value = "busy";
      this.problem.value = undefined;
      const before = this.finishReasons.value;
      await this.#chat.resumeStream();
      // The next read follows a complete turn at once.
      if (this.finishReasons.value !== before) failures = -1;
    }
  }

  /** Ends the reading of a conversation that does not exist: its first message was not stored, or the agent stores none. */
  #onUnread(error: ApiError): void {
    const isLocal = error.status === 404 && this.#mark === "" && this.#chat.messages.length > 0;
    if (!isLocal) {
      this.problem.value = toProblem(error);
      this.phase.value = "closed";
      return;
    }
    if (this.isLost.value) this.problem.value ??= { message: "The connection was lost before the answer was complete" };
    this.#settle();
  }
  #settle(): void {
    this.isLost.value = false;
    const last = this.#chat.lastMessage;
    if (this.#sent !== undefined && last?.id === this.#sent) {
      this.problem.value ??= { message: "The message was not sent" };
    }
    this.phase.value = "ready";
  }

  /** Replaces the shown messages with the messages of the server. */
  #take(found: OpenConversation): void {
    const { messages, hasMore, title, createdAt, isOwn } = found;
    wasStored(this.#agentId, this.#id);
    if (this.#mark !== toMark(found)) conversationChanges.value++;
    this.#mark = toMark(found);
    this.conversation.value = { title, createdAt, isOwn };
    if (messages.some(({ id }) => id === this.#sent)) this.#sent = undefined;
    const merged = mergeMessages(this.#chat.messages, found, this.#sent);
    if (!merged.hasEarlier) this.hasMore.value = hasMore;
    this.#chat.messages = merged.messages;
  }

  #read(before?: string): Promise<OpenConversation> {
    return readConversation(this.#agentId, this.#id, { userId: this.#userId, before, signal: this.#closing.signal });
  }
}

const toParts = (text: string, files: readonly FileUIPart[]): ChatPart[] => [
  ...files,
  ...(text === "" ? [] : [{ type: "text" as const, text }]),
];
