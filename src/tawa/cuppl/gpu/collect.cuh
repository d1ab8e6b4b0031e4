// Moving what is alive to a fresh heap: a copying collector (Cheney 1970) of which each thread is
// one, with particles of its own.
//
// An object belongs to the thread that claims it: that thread puts the new address into the old
// header, copies the rest, and looks through the copy later. Others take the address from there;
// they wait for it where the object is claimed but has none yet, for no longer than room is taken.
// A thread's small copies lie in chunks, whose first word is the address of the next and whose
// second is where the copies end; a large copy lies alone, behind the address of another one that
// is still to be looked through.

#define CHUNK_WORDS 128
#define LARGE_WORDS 32
#define CLAIMED 1

struct Mover {
  i64* control;
  i64 low, high, objects, frames;
  i64 chunk, next, end;  // the chunk that is being filled, and its free part
  i64 looked, position;  // the chunk that is being looked through, and how far
  i64 large;             // large copies to be looked through
  i64 live;              // words copied
  Context ctx;

  INLINE_MEMBER explicit Mover(i64* control)
      : control(control), low(control[LOW]), high(control[HIGH]), objects(control[OBJECTS]),
        frames(control[FRAMES]), large(0), live(0) {
    chunk = looked = room(CHUNK_WORDS);
    next = position = chunk + 16;
    end = chunk + 8 * CHUNK_WORDS;
  }

  INLINE_MEMBER i64 room(i64 words) {
    return (i64)atomicAdd((u64*)control + TARGET, (u64)(8 * words));
  }

  INLINE_MEMBER i64 take(i64 words) {
    live += words;
    if (words > LARGE_WORDS) {
      i64 block = room(1 + words);
      int_at(block) = large;
      large = block;
      return block + 8;
    }
    if (next + 8 * words > end) {
      i64 more = room(CHUNK_WORDS);
      int_at(chunk) = more;
      int_at(chunk + 8) = next;
      chunk = more;
      next = chunk + 16;
      end = chunk + 8 * CHUNK_WORDS;
    }
    i64 copy = next;
    next += 8 * words;
    return copy;
  }

  // The new address of an object.
  INLINE_MEMBER i64 forward(i64 reference) {
    if (reference < low || reference >= high) return reference;
    volatile i64* header = (volatile i64*)reference;
    i64 head = *header;
    if (!(head & 1)) {
      i64 seen = (i64)atomicCAS((u64*)reference, (u64)head, (u64)CLAIMED);
      if (seen == head) return moved(reference, head);
      head = seen;
    }
    while (head == CLAIMED) head = *header;
    return head - 1;
  }

  INLINE_MEMBER i64 moved(i64 reference, i64 head) {
    i64 words = cuppl_object_words(ctx, reference, head >> 20, objects);
    i64 copy = take(words);
    *(volatile i64*)reference = copy + 1;
    int_at(copy) = head;
    for (i64 word = 1; word < words; ++word) int_at(copy + 8 * word) = int_at(reference + 8 * word);
    return copy;
  }

  // Forward the references among some words, which `at` finds by number.
  template <class Words>
  INLINE_MEMBER void words(Words at, i64 first, i64 count, i64 mask, i64 table) {
    for (i64 index = 0; index < count; ++index)
      if (cuppl_marked(ctx, mask, index, table)) at(first + index) = forward(at(first + index));
  }

  // Forward those in frames, from the top down.
  template <class Words>
  INLINE_MEMBER void stack(Words at, i64 bottom, i64 top) {
    while (top > bottom) {
      u64 word = (u64)at(top - 1);
      i64 size = (i64)(word >> 32), mask = int_at(frames + 8 * (i64)(word & 0xFFFFFFFFu));
      top -= size + 1;
      if (mask != 0) words(at, top, size, mask, frames);
    }
  }

  // Forward those in a copy; its size in words.
  INLINE_MEMBER i64 look_through(i64 copy);

  // Look through all copies until no new ones come.
  DEVICE_MEMBER void drain() {
    for (;;) {
      if (position < (looked == chunk ? next : int_at(looked + 8))) {
        position += 8 * look_through(position);
      } else if (looked != chunk) {
        looked = int_at(looked);
        position = looked + 16;
      } else if (large) {
        i64 copy = large + 8;
        large = int_at(large);
        look_through(copy);
      } else {
        return;
      }
    }
  }
};

struct InObject {
  i64 address;
  INLINE_MEMBER i64& operator()(i64 word) const { return int_at(address + 8 * word); }
};

INLINE_MEMBER i64 Mover::look_through(i64 copy) {
  const InObject at = {copy};
  i64 layout = at(0) >> 20, size = cuppl_object_words(ctx, copy, layout, objects);
  if (layout == CONTINUATION_LAYOUT) {
    stack(at, 3, size);
    return size;
  }
  const InObject facts = {objects + 24 * layout};
  i64 mask = facts(2), each = facts(1);
  if (mask == 0) return size;
  if (facts(0) != 1) words(at, 1, size - 1, mask, objects);
  else
    for (i64 element = 0; element < at(1); ++element)
      words(at, 2 + element * each, each, mask, objects);
  return size;
}

#ifdef HAS_MACHINE
// The words of a particle at rest.
struct AtRest {
  const i64* control;
  Rows rows;
  i64 p, here, block;
  INLINE_MEMBER AtRest(const i64* control, i64 p) : control(control), rows(control), p(p), block(0) {
    i64 used = rows[0][p] & TOP_MASK, count = control[ROWS];
    here = used <= count ? used : count - 1;
    if (used > count) block = rows[(int)here][p];
  }
  INLINE_MEMBER i64& operator()(i64 word) const {
    return word < here ? rows[(int)word][p] : *pool_at(control, block, word - here);
  }
};

DEVICE void move_particle(Mover& mover, const i64* control, i64 p) {
  const AtRest at(control, p);
  if (control[HEADER] > 2) at(2) = mover.forward(at(2));
  mover.stack(at, control[HEADER], at(0) & TOP_MASK);
}
#else
DEVICE void move_particle(Mover& mover, const i64* control, i64 p) {
  for (i64 row = 0; row < control[ROWS]; ++row)
    if (cuppl_marked(mover.ctx, control[MASK], row, control[OBJECTS])) {
      i64& word = int_at(control[STATE] + 8 * (row * control[PARTICLES] + p));
      word = mover.forward(word);
    }
}
#endif

KERNEL void move_heap(i64* control) {
  Mover mover(control);
  i64 threads = (i64)gridDim.x * BLOCK;
  for (i64 p = (i64)blockIdx.x * BLOCK + threadIdx.x; p < control[PARTICLES]; p += threads) {
    move_particle(mover, control, p);
    mover.drain();
  }
  atomicAdd((u64*)control + LIVE, (u64)mover.live);
}
