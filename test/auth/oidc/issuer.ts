import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createKeyPair, signToken, type KeyPair } from "./sign.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** An issuer on this machine, whose keys and answers a test changes. */
export interface TestIssuer {
  readonly url: string;
  readonly audience: string;
  /** The keys that it publishes. It signs with the first one. */
  keys: KeyPair[];
  /** Replaces its answers, such as by those of an issuer that is down. */
  answer: Answer | undefined;
  /** Replaces fields of the discovery document. */
  discovery: Record<string, unknown>;
  /** The requests so far. */
  readonly count: { discovery: number; keys: number };
  /** A token of the current key. */
  mint(claims?: object, header?: object, key?: KeyPair): string;
  /** Publishes a new key, with which it signs from now on, and the one before. Older ones are withdrawn. */
  rotate(): KeyPair;
  close(): Promise<void>;
}

export interface IssuerOptions {
  readonly alg?: string;
  /** The path of the issuer. @default none */
  readonly path?: string;
  /** The time of the tokens, in milliseconds. @default that of the machine */
  readonly now?: () => number;
}

export async function startIssuer({
  alg = "ES256",
  path = "",
  now = Date.now,
}: IssuerOptions = {}): Promise<TestIssuer> {
  const count = { discovery: 0, keys: 0 };
  const server = createServer((request, response) => {
    const isDiscovery = request.url === `${path.replace(/\/$/, "")}/.well-known/openid-configuration`;
    if (isDiscovery) count.discovery++;
    else if (request.url === "/keys") count.keys++;
    if (issuer.answer) return issuer.answer(request, response);
    response.setHeader("content-type", "application/json");
    if (isDiscovery) {
      return response.end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${origin}/keys`, ...issuer.discovery }));
    }
    response.statusCode = request.url === "/keys" ? 200 : 404;
    return response.end(JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let made = 0;
  const issuer: TestIssuer = {
    url: origin + path,
    audience: "my-api",
    keys: [createKeyPair("key-0", alg)],
    answer: undefined,
    discovery: {},
    count,
    mint(claims = {}, header = {}, key = issuer.keys[0]!) {
      const seconds = Math.floor(now() / 1_000);
      const payload = {
        iss: issuer.url,
        aud: issuer.audience,
        sub: "ada",
        iat: seconds,
        exp: seconds + 3_600,
        ...claims,
      };
      return signToken({ alg: key.alg, kid: key.kid, typ: "JWT", ...header }, payload, key);
    },
    rotate() {
      const key = createKeyPair(`key-${++made}`, alg);
      issuer.keys = [key, ...issuer.keys.slice(0, 1)];
      return key;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return issuer;
}

/** The answers of an issuer that is not well. */
export const troubles = {
  "closes the connection": (_, response) => void response.destroy(),
  "answers 500": (_, response) => void response.writeHead(500).end("{}"),
  "answers 404": (_, response) => void response.writeHead(404).end("{}"),
  "answers with a page": (_, response) => void response.end("<html>Sign in</html>"),
  "answers with JSON that is not an object": (_, response) => void response.end("[]"),
  "sends an endless response": (_, response) => {
    const chunk = "x".repeat(16_384);
    const send = (): void => {
      while (!response.destroyed && response.write(chunk));
      if (!response.destroyed) response.once("drain", send);
    };
    send();
  },
  "redirects to another host": (_, response) =>
    void response.writeHead(302, { location: "http://keys.example/" }).end(),
  "ends in the middle of a response": (_, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write('{"iss');
    setImmediate(() => response.destroy());
  },
} satisfies Record<string, Answer>;
