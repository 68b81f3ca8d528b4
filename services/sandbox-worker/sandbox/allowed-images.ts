import { DomainError } from '../../shared/domain-error.ts';

/** Throws IMAGE_NOT_ALLOWED unless sessions may run in the image of this name. */
export type AllowedImages = (reference: string) => void;

/** An image as the engine names it, or several: `*` stands for anything. Undefined: it is neither. */
export function imagePattern(text: string): string | undefined {
  return /^[a-z0-9*][A-Za-z0-9._/:@*-]{0,511}$/.test(text) ? text : undefined;
}

export function createAllowedImages(patterns: readonly string[]): AllowedImages {
  const allowed = patterns.map((pattern) => {
    const parts = fullName(pattern).split('*');
    return new RegExp(`^${parts.map((part) => RegExp.escape(part)).join('.*')}$`);
  });
  return (reference) => {
    if (allowed.some((pattern) => pattern.test(fullName(reference)))) return;
    const message =
      `image ${reference} is not among those that sessions may run in here; leave image empty for the base image, ` +
      'or have the operator of the worker name it in ASSAY_IMAGES';
    throw new DomainError('IMAGE_NOT_ALLOWED', message, { field: 'image', image: reference });
  };
}

/** The engine takes several spellings for one image. */
function fullName(reference: string): string {
  const name = reference.replace(/^docker\.io\//, '').replace(/^library\//, '');
  const last = name.slice(name.lastIndexOf('/') + 1);
  return /[:@*]/.test(last) ? name : `${name}:latest`;
}
