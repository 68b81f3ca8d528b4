import { reportText } from './report-text.ts';
import { createRowCollector, ReportError, type ReportLimits, type RowCollector, type TestRow } from './test-row.ts';

/**
 * TAP 13 and 14, line by line. Diagnostics in YAML are kept as text and never built into objects, since they are written
 * by whoever wrote the report. A subtest's tests are named `parent > child`; the parent's own line is a test too.
 */
export function parseTap(bytes: Uint8Array, limits: ReportLimits): TestRow[] {
  const reader = createReader(limits);
  for (const line of reportText(bytes, limits).split(/\r?\n/)) reader.line(line);
  return reader.end();
}

interface Point {
  readonly ok: boolean;
  readonly name: string;
  readonly directive: 'SKIP' | 'TODO' | undefined;
  readonly detail: string;
  durationMs: number | undefined;
  message: string;
}

/** One level of nesting. Its points wait for the name of the test that they are part of, which comes after them. */
interface Level {
  readonly indent: number;
  readonly points: { readonly path: string; readonly point: Point }[];
  plan: number | undefined;
  count: number;
  last: Point | undefined;
}

const pointShape = /^(not )?ok\b(?: +(\d{1,9}))?(.*)$/;
const planShape = /^1\.\.(\d{1,9})(?:\s*#.*)?$/;

function createReader(limits: ReportLimits) {
  const levels: Level[] = [newLevel(0)];
  let yaml: { readonly indent: number; readonly lines: string[]; readonly point: Point } | undefined;
  let total = 0;

  const top = (): Level => levels.at(-1) ?? (levels[0] as Level);
  const close = (): Level => {
    const level = levels.pop() as Level;
    checkPlan(level);
    return level;
  };
  const point = (level: Level, match: RegExpExecArray): void => {
    total += 1;
    if (total > limits.tests) throw new ReportError(`more than ${limits.tests} tests`);
    level.count += 1;
    const found = readPoint(match, level.count);
    level.last = found;
    level.points.push({ path: found.name, point: found });
  };
  /** Subtests deeper than this line are over; the line names the innermost that lies below it. */
  const closeDeeper = (indent: number): Level[] => {
    const closed: Level[] = [];
    while (top().indent > indent && levels.length > 1) closed.push(close());
    return closed;
  };

  return {
    line(raw: string): void {
      const indent = /^ */.exec(raw)?.[0].length ?? 0;
      const line = raw.trim();
      if (yaml !== undefined && indent >= yaml.indent) {
        // One that is further in belongs to a text in the block, which is not the runner's own.
        if (line === '...' && indent === yaml.indent) {
          finishYaml(yaml.point, yaml.lines);
          yaml = undefined;
        } else if (yaml.lines.length < 200) yaml.lines.push(line);
        return;
      }
      yaml = undefined;
      const level = top();
      if (line === '---' && level.last !== undefined && indent > level.indent) {
        yaml = { indent, lines: [], point: level.last };
        return;
      }
      if (/^Bail out!/i.test(line)) throw new ReportError(`bailed out: ${line.slice(9, 200).trim()}`);
      const match = pointShape.exec(line);
      const plan = planShape.exec(line);
      if (match === null && plan === null) return;
      let children: Level[] = [];
      if (indent > level.indent) {
        if (levels.length >= limits.depth) throw new ReportError(`subtests nested more than ${limits.depth} deep`);
        levels.push(newLevel(indent));
      } else children = closeDeeper(indent);
      const here = top();
      if (plan !== null) here.plan = setPlan(here, Number(plan[1]));
      else if (match !== null) point(here, match);
      for (const child of children) adopt(here, child);
    },
    end(): TestRow[] {
      while (levels.length > 1) {
        const child = close();
        adopt(top(), child);
      }
      const root = close();
      if (root.plan === undefined) throw new ReportError('no plan (1..N): the report may be cut off');
      const rows = createRowCollector(limits);
      for (const { path, point: each } of root.points) addRow(rows, path, each);
      return rows.rows();
    },
  };
}

function newLevel(indent: number): Level {
  return { indent, points: [], plan: undefined, count: 0, last: undefined };
}

function setPlan(level: Level, plan: number): number {
  if (level.plan !== undefined) throw new ReportError('two plans');
  return plan;
}

function checkPlan(level: Level): void {
  if (level.plan !== undefined && level.plan !== level.count) {
    throw new ReportError(`the plan says ${level.plan} tests, the report has ${level.count}`);
  }
}

/** The points of a subtest take the name of the test that closed it. */
function adopt(parent: Level, child: Level): void {
  const prefix = parent.last?.name ?? '';
  for (const { path, point } of child.points) {
    parent.points.push({ path: prefix === '' ? path : `${prefix} > ${path}`, point });
  }
}

function readPoint(match: RegExpExecArray, position: number): Point {
  const [, not, number, rest = ''] = match;
  const hash = /(?<!\\)#\s*(SKIP|TODO)\b\S*\s*(.*)$/i.exec(rest);
  const time = /(?<!\\)#\s*time=(\d+(?:\.\d+)?)(ms|s)\b/i.exec(rest);
  const cutAt = Math.min(hash?.index ?? rest.length, time?.index ?? rest.length);
  const described = rest.slice(0, cutAt).trim();
  // A dash leads the description; a brace at its end opens a subtest. No expression with blanks in it: it would be slow.
  const bare = described.slice(described.startsWith('-') ? 1 : 0, described.endsWith('{') ? -1 : undefined);
  const name = bare.replace(/\\([#\\])/g, '$1').trim();
  return {
    ok: not === undefined,
    name: name === '' ? `test ${number ?? position}` : name,
    directive: hash === null ? undefined : ((hash[1] ?? '').toUpperCase() as 'SKIP' | 'TODO'),
    detail: hash?.[2]?.trim() ?? '',
    durationMs: time === null ? undefined : Number(time[1]) * (time[2]?.toLowerCase() === 's' ? 1_000 : 1),
    message: '',
  };
}

function finishYaml(point: Point, lines: readonly string[]): void {
  const duration = lines
    .map((line) => /^duration_ms:\s*(\d+(?:\.\d+)?)\s*$/.exec(line))
    .find((found) => found !== null);
  if (duration !== undefined) point.durationMs = Number(duration[1]);
  point.message = lines.join('\n');
}

/** A test to be done later has not passed, whatever it says: nobody promises its result. */
function addRow(rows: RowCollector, name: string, point: Point): void {
  const { ok, directive, detail, durationMs } = point;
  const status = directive !== undefined ? 'skipped' : ok ? 'passed' : 'failed';
  const message = directive !== undefined ? detail : ok ? '' : point.message;
  rows.add({ name, status, durationMs, message });
}
