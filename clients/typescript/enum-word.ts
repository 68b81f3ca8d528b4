import { AssayError } from './assay-error.ts';

/** The value of a word in an enum of the API. What is no word of it is refused here: the wire would drop it without a sound. */
export function enumValue<Enum extends Readonly<Record<string, string | number>>>(
  values: Enum,
  word: keyof Enum & string,
  option: string,
): Enum[keyof Enum & string] {
  const words = Object.keys(values).filter((name) => Number.isNaN(Number(name)) && name !== 'UNSPECIFIED');
  if (words.includes(word)) return values[word];
  throw new AssayError('INVALID_OPTION', `${option}: found ${JSON.stringify(word)}; expected ${words.join(', ')}`);
}
