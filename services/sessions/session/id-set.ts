const firstCapacity = 1_024;

/**
 * A set of ids by a hash of 32 bits, without objects: for a million ids eight to sixteen megabytes. It may take an id for
 * one that it holds, one time in some thousand, and never the other way round.
 */
export interface IdSet {
  /** How many were added, those of the same hash once. */
  readonly size: number;
  add(hash: number): void;
  has(hash: number): boolean;
}

/** Never 0, which marks a free place. */
export function hashOfId(id: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at += 1) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return hash >>> 0 || 1;
}

export function createIdSet(): IdSet {
  let places = new Uint32Array(firstCapacity);
  let size = 0;
  /** The place of a hash, or the free one where it belongs. */
  const placeOf = (hash: number): number => {
    let place = hash & (places.length - 1);
    while (places[place] !== 0 && places[place] !== hash) place = (place + 1) & (places.length - 1);
    return place;
  };
  const grow = (): void => {
    const old = places;
    places = new Uint32Array(2 * old.length);
    for (const hash of old) if (hash !== 0) places[placeOf(hash)] = hash;
  };
  return {
    get size() {
      return size;
    },
    add(hash) {
      if (2 * size >= places.length) grow();
      const place = placeOf(hash);
      if (places[place] === 0) size += 1;
      places[place] = hash;
    },
    has: (hash) => places[placeOf(hash)] === hash,
  };
}
