import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { reportText } from './report-text.ts';
import {
  createRowCollector,
  ReportError,
  type ReportLimits,
  type RowCollector,
  type TestRow,
  type TestStatus,
} from './test-row.ts';

/** An element as the parser gives it with `preserveOrder`: its name, with its children, beside its attributes. */
type Element = { readonly [name: string]: unknown; readonly ':@'?: Readonly<Record<string, string>> };

export type JunitNames = 'qualified' | 'plain';

const attributesKey = ':@';
const textKey = '#text';
const textCharacters = 65_536;

/** Reads a JUnit report. A document type is refused, so that there are no entities but the five of XML itself. */
export function parseJunit(bytes: Uint8Array, limits: ReportLimits, names: JunitNames): TestRow[] {
  const text = reportText(bytes, limits);
  refuseDocumentType(text);
  const roots = parse(text, limits).filter((element) => elementName(element) !== '?xml');
  const [root] = roots;
  const name = root === undefined ? undefined : elementName(root);
  if (roots.length !== 1 || root === undefined || (name !== 'testsuites' && name !== 'testsuite')) {
    throw new ReportError('not a JUnit report: expected one element testsuites or testsuite');
  }
  const rows = createRowCollector(limits);
  collect(root, rows, names);
  return rows.rows();
}

/** Only before the first element can there be one; what looks like one later is text or malformed. */
function refuseDocumentType(text: string): void {
  const first = /<[A-Za-z_:]/.exec(text);
  const prolog = first === null ? text : text.slice(0, first.index);
  if (/<!DOCTYPE|<!ENTITY/i.test(prolog)) throw new ReportError('a document type, which a report has no need of');
}

function parse(text: string, limits: ReportLimits): Element[] {
  try {
    const verdict = XMLValidator.validate(text, { allowBooleanAttributes: false });
    if (verdict !== true) throw new ReportError(`not well-formed XML: ${verdict.err.msg} (line ${verdict.err.line})`);
    const parser = new XMLParser({
      preserveOrder: true,
      ignoreAttributes: false,
      attributeNamePrefix: '',
      ignorePiTags: true,
      processEntities: false,
      parseTagValue: false,
      parseAttributeValue: false,
      trimValues: false,
      maxNestedTags: limits.depth,
    });
    return parser.parse(text) as Element[];
  } catch (error) {
    if (error instanceof ReportError) throw error;
    throw new ReportError(`not well-formed XML: ${(error as Error).message.slice(0, 200)}`);
  }
}

function collect(element: Element, rows: RowCollector, names: JunitNames): void {
  for (const child of childrenOf(element)) {
    const name = elementName(child);
    if (name === 'testcase') rows.add(testCase(child, names));
    else if (name === 'testsuite') collect(child, rows, names);
    // A suite that broke outside of any test, as some runners write it.
    else if (name === 'error' || name === 'failure') rows.add(suiteFailure(element, child));
  }
}

function testCase(element: Element, names: JunitNames) {
  const attributes = attributesOf(element);
  const name = attributes.name ?? '';
  const { classname } = attributes;
  const qualified = names === 'qualified' && classname !== undefined && classname !== '';
  let status: TestStatus = 'passed';
  let message = '';
  for (const child of childrenOf(element)) {
    const kind = elementName(child);
    if (kind !== 'failure' && kind !== 'error' && kind !== 'skipped') continue;
    const found = kind === 'failure' ? 'failed' : kind;
    if (status === 'passed' || status === 'skipped' || found === 'error') {
      status = found;
      message = messageOf(child);
    }
  }
  // Some runners say it in an attribute and leave the element out.
  const said = (attributes.status ?? attributes.result ?? '').toLowerCase();
  if (status === 'passed' && /^(fail|failed|failure|error|broken)$/.test(said)) status = 'failed';
  if (status === 'passed' && /^(skip|skipped|notrun|disabled|ignored|suppressed)$/.test(said)) status = 'skipped';
  const seconds = attributes.time === undefined ? Number.NaN : Number(attributes.time.replaceAll(',', ''));
  return {
    name: qualified ? `${classname}::${name}` : name,
    status,
    durationMs: Number.isNaN(seconds) ? undefined : seconds * 1_000,
    message,
  };
}

function suiteFailure(suite: Element, failure: Element) {
  return { name: `suite ${attributesOf(suite).name ?? ''}`, status: 'error' as const, message: messageOf(failure) };
}

function messageOf(element: Element): string {
  const attribute = attributesOf(element).message ?? '';
  const text = childrenOf(element)
    .map((child) => child[textKey])
    .filter((part) => typeof part === 'string')
    .join('');
  // A message is cut anyway; decoding all of a large one would be for nothing.
  return [attribute, decode(text.slice(0, textCharacters)).trim()].filter((part) => part !== '').join('\n');
}

function elementName(element: Element): string {
  return Object.keys(element).find((key) => key !== attributesKey) ?? '';
}

function childrenOf(element: Element): readonly Element[] {
  const children = element[elementName(element)];
  return Array.isArray(children) ? (children as Element[]) : [];
}

function attributesOf(element: Element): Readonly<Record<string, string>> {
  const given = element[attributesKey] ?? {};
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, decode(String(value))]));
}

const entities: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

/** The five entities of XML and characters by number; whatever else looks like one stays as it is. */
function decode(text: string): string {
  return text.replace(/&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));/g, (whole, name, decimal, hex) => {
    if (name !== undefined) return entities[name as string] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex as string, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code).toWellFormed() : whole;
  });
}
