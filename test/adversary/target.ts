import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { readSample, type SampleFolder } from '../../services/shared/sample/read-sample.ts';
import { buildSampleImage } from '../samples/sample-image.ts';
import type { TargetName } from './attack.ts';

const examples = new URL('../../datasets/examples/', import.meta.url).pathname;
const inProcess = new URL('./in-process/', import.meta.url).pathname;

/** A sample under attack, and the name of its image. */
export interface Target {
  readonly folder: SampleFolder;
  readonly image: string;
}

const ids: Readonly<Record<TargetName, string>> = {
  python: 'hello-fix',
  javascript: 'minimist-proto',
  c: 'cjson-pointer',
  java: 'commons-lang-classutils',
  shell: 'git-open-issue',
};

/** What the naive grader starts, which the images do not have by themselves. */
const packages: Readonly<Partial<Record<TargetName, string>>> = {
  python: 'python3-pytest',
  java: 'default-jdk-headless junit5',
};

/** The sample as it is shipped, in an image that has the naive grader's runner too, and with limits that a test can reach. */
export async function isolatedTarget(name: TargetName, below: string): Promise<Target> {
  return make(name, below, () => {});
}

/** The Python sample with tests that load the submission into their runner, and say so. */
export async function inProcessTarget(below: string): Promise<Target> {
  return make('python', below, (document, folder) => {
    rmSync(join(folder, 'tests'), { recursive: true });
    cpSync(inProcess, join(folder, 'tests'), { recursive: true });
    const pytest =
      'python3 -I -m pytest -c /dev/null --rootdir=. -p no:cacheprovider --junitxml="$ASSAY_REPORTS/junit.xml"';
    const role = (...tests: string[]) => ({ assurance: 'IN_PROCESS', tests });
    document.setIn(['verification', 'command'], `${pytest} test_a_counts.py test_sums.py`);
    document.setIn(['verification', 'reports'], [{ format: 'junit', path: 'junit.xml', names: 'plain' }]);
    document.setIn(['verification', 'fail_to_pass'], role('test_last_number', 'test_one_number'));
    document.setIn(['verification', 'pass_to_pass'], role('test_counts', 'test_empty'));
    const sentinel = { ...role('test_nobody_passes'), command: `${pytest} test_sentinel.py` };
    document.setIn(['verification', 'sentinel_fail'], sentinel);
  });
}

type Document = ReturnType<typeof parseDocument>;

async function make(
  name: TargetName,
  below: string,
  change: (document: Document, folder: string) => void,
): Promise<Target> {
  const folder = mkdtempSync(join(below, 'target-'));
  cpSync(join(examples, ids[name]), folder, { recursive: true });
  const document = parseDocument(readFileSync(join(folder, 'sample.yaml'), 'utf8'));
  const wanted = packages[name];
  if (wanted !== undefined) {
    mkdirSync(join(folder, 'environment'), { recursive: true });
    writeFileSync(join(folder, 'environment', 'Dockerfile'), dockerfile(wanted));
    document.setIn(['environment', 'dockerfile'], 'environment/Dockerfile');
  }
  // Builds as the agent before the tests, so that makefiles have their say in a grading too.
  if (name === 'c') document.setIn(['verification', 'prepare'], { command: 'make -s static', timeout: 120 });
  document.setIn(['verification', 'submission'], { max_bytes: '16m', max_files: 2_000 });
  change(document, folder);
  writeFileSync(join(folder, 'sample.yaml'), document.toString());
  const read = await readSample(folder);
  return { folder: read, image: await buildSampleImage(read) };
}

/** The folder of manual pages is missing in the base image, and Java does not install without it. */
function dockerfile(wanted: string): string {
  return `ARG ASSAY_BASE
FROM \${ASSAY_BASE}
USER root
RUN mkdir -p /usr/share/man/man1 && apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ${wanted} \\
 && rm -rf /var/lib/apt/lists/* /usr/share/man/*
USER agent
`;
}
