/** Writes a Protocol Buffers message. Fields are written in the order of the calls. */
export class ProtobufWriter {
  #bytes = Buffer.allocUnsafe(16_384);
  #at = 0;

  /** Returns a copy of the message. */
  finish(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#at));
  }

  message(field: number, write: () => void): void {
    this.#tag(field, 2);
    const start = this.#at;
    write();
    // Most messages are longer than 127 bytes only at the outer levels: their content is moved for a longer length.
    const length = this.#at - start;
    const size = sizeOf(length);
    this.#reserve(size);
    this.#bytes.copyWithin(start + size, start, this.#at);
    this.#at = start;
    this.#varint(length);
    this.#at += length;
  }

  string(field: number, text: string): void {
    this.#tag(field, 2);
    const length = Buffer.byteLength(text); // a lone surrogate is written as U+FFFD
    this.#varint(length);
    this.#reserve(length);
    this.#at += this.#bytes.write(text, this.#at, "utf8");
  }

  hex(field: number, text: string): void {
    this.#tag(field, 2);
    this.#varint(text.length / 2);
    this.#reserve(text.length / 2);
    this.#at += this.#bytes.write(text, this.#at, "hex");
  }

  /** A number of an enum, or a boolean. */
  small(field: number, value: number): void {
    this.#tag(field, 0);
    this.#varint(value);
  }

  int64(field: number, value: number): void {
    this.#tag(field, 0);
    if (value >= 0) return this.#varint(value);
    let left = BigInt.asUintN(64, BigInt(value)); // a negative number has ten bytes
    this.#reserve(10);
    for (; left > 127n; left >>= 7n) this.#bytes[this.#at++] = Number(left & 127n) | 128;
    this.#bytes[this.#at++] = Number(left);
  }

  double(field: number, value: number): void {
    this.#tag(field, 1);
    this.#reserve(8);
    this.#at = this.#bytes.writeDoubleLE(value, this.#at);
  }

  fixed64(field: number, value: bigint): void {
    this.#tag(field, 1);
    this.#reserve(8);
    this.#at = this.#bytes.writeBigUInt64LE(value, this.#at);
  }

  fixed32(field: number, value: number): void {
    this.#tag(field, 5);
    this.#reserve(4);
    this.#at = this.#bytes.writeUInt32LE(value, this.#at);
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType);
  }

  /** Writes a number that is not negative. Not by shifts, because they have 32 bits. */
  #varint(value: number): void {
    this.#reserve(10);
    let left = value;
    for (; left > 127; left = Math.floor(left / 128)) this.#bytes[this.#at++] = (left % 128) | 128;
    this.#bytes[this.#at++] = left;
  }

  #reserve(length: number): void {
    if (this.#at + length <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + length));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

function sizeOf(length: number): number {
  let size = 1;
  for (let left = length; left > 127; left = Math.floor(left / 128)) size++;
  return size;
}
