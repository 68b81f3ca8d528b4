import { create } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import {
  type Sample,
  SampleSchema,
  type SampleVerification,
  SampleVerificationSchema,
} from '../../../gen/assay/v1/sample_pb.js';
import { Assurance, NetworkMode, NetworkSchema, ResourceLimitsSchema } from '../../../gen/assay/v1/types_pb.js';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { weakest } from '../../shared/sample/run-plan.ts';
import { testRoles } from '../../shared/sample/test-role.ts';
import { roleNames } from '../../shared/sample/verification-schema.ts';
import type { CatalogEntry } from './sample-catalog.ts';

const networkModes = { none: NetworkMode.NONE, egress: NetworkMode.EGRESS, full: NetworkMode.FULL } as const;

/** What a list tells of a sample. `grader`: whether the caller may know what only graders may. */
export function summaryOf(folder: SampleFolder, grader: boolean): Sample {
  const { sample, digests } = folder;
  const { provenance } = sample;
  return create(SampleSchema, {
    name: { datasetId: sample.dataset, sampleId: sample.id, version: sample.version },
    language: sample.language,
    tags: sample.tags,
    title: sample.title,
    hintCount: sample.hints.length,
    contentDigest: digests.content,
    imageDigest: digests.image,
    verificationDigest: digests.verification,
    environment: environmentOf(folder),
    verification: verificationOf(folder, grader),
    ...(grader ? { provenance: { ...provenance, url: provenance.url ?? '', license: provenance.license ?? '' } } : {}),
  });
}

/** What a session made from the sample gets. */
export function environmentOf({ sample: { environment } }: SampleFolder) {
  return {
    image: environment.image ?? '',
    workingDirectory: environment.workdir,
    user: environment.user,
    limits: create(ResourceLimitsSchema, limitsOf(environment)),
    network: create(NetworkSchema, { mode: networkModes[environment.network], allow: environment.egress_hosts }),
  };
}

/** All that may be told of one sample. */
export function detailOf(entry: CatalogEntry, folder: SampleFolder, grader: boolean, hints: boolean): Sample {
  const summary = summaryOf(folder, grader);
  const { sample } = folder;
  summary.instruction = sample.instruction;
  summary.versions = entry.versions.map((version) => version.sample.version);
  if (hints) summary.hints = sample.hints;
  if (!grader) return summary;
  for (const name of roleNames) {
    const group = summary.verification?.testGroups.find(({ role }) => role === testRoles[name]);
    if (group !== undefined) group.tests = sample.verification[name]?.tests ?? [];
  }
  return summary;
}

function limitsOf({ cpus, memory, disk, pids }: SampleFolder['sample']['environment']) {
  return {
    ...(cpus === undefined ? {} : { cpus }),
    ...(memory === undefined ? {} : { memoryBytes: BigInt(memory) }),
    ...(disk === undefined ? {} : { diskBytes: BigInt(disk) }),
    ...(pids === undefined ? {} : { pids }),
  };
}

function verificationOf({ sample }: SampleFolder, grader: boolean): SampleVerification {
  const { verification } = sample;
  const told = roleNames.filter((name) => grader || name !== 'sentinel_fail');
  const needed = (['fail_to_pass', 'pass_to_pass'] as const).flatMap((name) => verification[name]?.assurance ?? []);
  return create(SampleVerificationSchema, {
    assurance: Assurance[weakest(needed)],
    testGroups: told.flatMap((name) => {
      const role = verification[name];
      if (role === undefined) return [];
      return [{ role: testRoles[name], assurance: Assurance[role.assurance], testCount: role.tests.length }];
    }),
    timeout: durationFromMs(verification.timeout * 1_000),
    include: verification.submission.include,
    exclude: verification.submission.exclude,
    restorePaths: verification.restore_paths,
    forbidPaths: verification.forbid_paths,
    maxSizeBytes: BigInt(verification.submission.max_bytes),
    maxFileCount: verification.submission.max_files,
    pauseSessions: verification.pause_sessions === true,
    hasOracle: grader && sample.oracle !== undefined,
  });
}
