-- A store of schema version 3: four ended runs, one under way and a peak. Never edited: files like it exist.
PRAGMA application_id = 1634300784;
PRAGMA user_version = 3;
CREATE TABLE arms (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    rung TEXT NOT NULL CHECK (rung <> ''),
    state TEXT NOT NULL CHECK (state IN (
        'planned', 'starting', 'running', 'ok', 'incorrect', 'user_error', 'unavailable', 'crashed',
        'premature_exit', 'oom_killed', 'cuda_poisoned', 'timeout_progress', 'timeout_total', 'output_limit',
        'cancelled', 'engine_lost', 'infra_error')),
    correctness TEXT NOT NULL CHECK (correctness IN ('unknown', 'correct', 'wrong')),
    timing TEXT NOT NULL CHECK (timing <> ''),
    median_ms REAL CHECK (median_ms IS NULL OR (median_ms > 0 AND median_ms < 1e12)),
    low_ms REAL CHECK (low_ms IS NULL OR (low_ms > 0 AND low_ms < 1e12)),
    high_ms REAL CHECK (high_ms IS NULL OR (high_ms > 0 AND high_ms < 1e12)),
    sample_count INTEGER NOT NULL CHECK (sample_count >= 0),
    sol REAL,
    max_error REAL,
    peak_bytes INTEGER,
    exit_code INTEGER,
    signal INTEGER,
    signal_sent_by_us INTEGER NOT NULL CHECK (signal_sent_by_us IN (0, 1)),
    dirty_exit INTEGER NOT NULL CHECK (dirty_exit IN (0, 1)),
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    sources TEXT NOT NULL, calls INTEGER CHECK (calls >= 1), sm_clock_mhz REAL CHECK (sm_clock_mhz > 0 AND sm_clock_mhz < 1e12), light TEXT
    CHECK (light IS NULL OR (json_valid(light) AND json_type(light) = 'object')), quality TEXT
    CHECK (quality IS NULL OR (json_valid(quality) AND json_type(quality) = 'object')),
    PRIMARY KEY (run, position),
    UNIQUE (run, rung),
    -- SQLite keeps NaN as NULL: an interval around nothing is what a NaN median leaves behind.
    CHECK (median_ms IS NOT NULL OR (low_ms IS NULL AND high_ms IS NULL)),
    CHECK (median_ms IS NULL OR (timing <> 'none' AND sample_count > 0 AND correctness = 'correct')),
    CHECK (low_ms IS NULL OR high_ms IS NULL OR low_ms <= high_ms),
    CHECK (state <> 'ok' OR correctness = 'correct'),
    CHECK (state <> 'crashed' OR signal IS NOT NULL)
) STRICT, WITHOUT ROWID;
INSERT INTO "arms" VALUES(1,0,'baseline','ok','correct','cold graph',1.0,0.99,1.01,6,0.41,0.0,8589934592,NULL,NULL,0,0,'','','',16,1935.0,'{"clock_ms":0.41,"limiter":"bytes","measured_ms":0.45,"spec_ms":0.4}','{"autocorrelation":0.1,"drift":-0.0012,"overhead_ms":0.00128,"resolution_ms":3.2e-05,"throttled_share":0.0625}');
INSERT INTO "arms" VALUES(1,1,'optimized','ok','correct','cold graph',0.5,0.495,0.505,6,0.82,0.25,NULL,0,NULL,0,1,'','','',16,1980.0,'{"clock_ms":0.41,"limiter":"bytes","measured_ms":0.45,"score":0.9167,"spec_ms":0.4}','{"autocorrelation":0.1,"drift":-0.0012,"high_mode_ms":0.56,"high_share":0.25,"low_mode_ms":0.49,"overhead_ms":0.00128,"resolution_ms":3.2e-05,"throttled_share":0.0625}');
INSERT INTO "arms" VALUES(2,0,'baseline','ok','correct','cold',1.0,0.99,1.01,6,0.41,0.0,8589934592,NULL,NULL,0,0,'','','',NULL,NULL,NULL,NULL);
INSERT INTO "arms" VALUES(2,1,'optimized','ok','correct','cold',6.66666666666666629659e-01,0.66,6.73333333333333339254e-01,6,0.82,0.25,NULL,0,NULL,0,1,'','','',NULL,NULL,NULL,NULL);
INSERT INTO "arms" VALUES(3,0,'baseline','ok','correct','cold',1.0,0.99,1.01,6,0.41,0.0,8589934592,NULL,NULL,0,0,'','','',NULL,NULL,NULL,NULL);
INSERT INTO "arms" VALUES(3,1,'optimized','incorrect','wrong','none',NULL,NULL,NULL,0,0.82,40.0,NULL,0,NULL,0,1,'differs','','',NULL,NULL,NULL,NULL);
CREATE TABLE ceilings (
    peak INTEGER NOT NULL REFERENCES peaks (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    name TEXT NOT NULL CHECK (name <> ''),
    value REAL CHECK (value > 0 AND value < 9e999),
    unit TEXT NOT NULL CHECK (unit <> ''),
    sm_clock_mhz REAL CHECK (sm_clock_mhz > 0 AND sm_clock_mhz < 1e12),
    memory_clock_mhz REAL CHECK (memory_clock_mhz > 0 AND memory_clock_mhz < 1e12),
    footprint_bytes INTEGER CHECK (footprint_bytes >= 0),
    note TEXT NOT NULL,
    PRIMARY KEY (peak, position),
    CHECK (value IS NOT NULL OR note <> '')
) STRICT, WITHOUT ROWID;
INSERT INTO "ceilings" VALUES(1,0,'dram read',2900000000000.0,'bytes/s',1755.0,2619.0,2147483648,'');
INSERT INTO "ceilings" VALUES(1,1,'dram read',3050000000000.0,'bytes/s',1755.0,2619.0,4294967296,'');
INSERT INTO "ceilings" VALUES(1,2,'bf16 dense',720000000000000.0,'flop/s',1410.0,2619.0,NULL,'');
INSERT INTO "ceilings" VALUES(1,3,'launch graph node',1.1e-06,'s',NULL,NULL,NULL,'64 empty kernels in one graph');
INSERT INTO "ceilings" VALUES(1,4,'nvlink read',NULL,'bytes/s',NULL,NULL,NULL,'no other GPU is linked to this one');
CREATE TABLE comparisons (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    rung TEXT NOT NULL,
    baseline TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('faster', 'slower', 'same', 'undecided', 'none')),
    speedup REAL CHECK (speedup IS NULL OR (speedup > 0 AND speedup < 1e12)),
    low REAL CHECK (low IS NULL OR (low > 0 AND low < 1e12)),
    high REAL CHECK (high IS NULL OR (high > 0 AND high < 1e12)),
    floor REAL,
    note TEXT NOT NULL, cycles REAL CHECK (cycles > 0 AND cycles < 1e12), cycles_low REAL CHECK (cycles_low > 0 AND cycles_low < 1e12), cycles_high REAL CHECK (cycles_high > 0 AND cycles_high < 1e12), p_value REAL CHECK (p_value >= 0 AND p_value <= 1),
    PRIMARY KEY (run, position),
    CHECK (verdict IN ('undecided', 'none')
        OR (speedup IS NOT NULL AND low IS NOT NULL AND high IS NOT NULL)),
    CHECK (verdict <> 'faster' OR low > 1),
    CHECK (verdict <> 'slower' OR high < 1)
) STRICT, WITHOUT ROWID;
INSERT INTO "comparisons" VALUES(1,0,'optimized','baseline','faster',2.0,1.96,2.04,0.004,'',1.95,1.91,1.99,0.0001);
INSERT INTO "comparisons" VALUES(2,0,'optimized','baseline','faster',1.5,1.47,1.53,0.004,'',NULL,NULL,NULL,NULL);
CREATE TABLE environments (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;
INSERT INTO "environments" VALUES('098484e6d40c837c081439537b3684457f36420d8d2075166f2dbd93a74fccff','{"driver":"575.57","gpu":"NVIDIA H100 80GB HBM3","torch":"2.9.0"}');
CREATE TABLE manifests (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;
INSERT INTO "manifests" VALUES('b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','{"replicas":5,"sets":[1,2,3],"stop":{"interval":0.01,"max_rounds":200}}');
CREATE TABLE peaks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    gpu TEXT NOT NULL,
    gpu_uuid TEXT NOT NULL,
    wall TEXT NOT NULL,
    environment TEXT NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;
INSERT INTO "peaks" VALUES(1,'01J00000000000000000000000','NVIDIA H100 80GB HBM3','GPU-0','2026-05-04T10:00:00.000+00:00','','3e6b6e3993cc95108e00093e4440b8a82c2cb784c030186ae7b9e546d2f48442');
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    target TEXT NOT NULL CHECK (target <> ''),
    folder BLOB NOT NULL,
    title TEXT NOT NULL,
    device TEXT NOT NULL,
    "case" TEXT NOT NULL,
    quick INTEGER NOT NULL CHECK (quick IN (0, 1)),
    "trigger" TEXT NOT NULL CHECK ("trigger" IN ('cli', 'tui', 'watch')),
    seed TEXT NOT NULL CHECK (seed <> '' AND seed NOT GLOB '*[^0-9-]*'),
    epoch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    wall TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN (
        'planned', 'starting', 'running', 'ok', 'incorrect', 'user_error', 'unavailable', 'crashed',
        'premature_exit', 'oom_killed', 'cuda_poisoned', 'timeout_progress', 'timeout_total', 'output_limit',
        'cancelled', 'engine_lost', 'infra_error')),
    correctness TEXT NOT NULL CHECK (correctness IN ('unknown', 'correct', 'wrong')),
    validity TEXT NOT NULL CHECK (validity IN ('unknown', 'valid', 'suspect', 'caught')),
    verdict TEXT NOT NULL CHECK (verdict IN ('faster', 'slower', 'same', 'undecided', 'none')),
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    start_ns INTEGER,
    duration_ms REAL CHECK (duration_ms IS NULL OR (duration_ms >= 0 AND duration_ms < 1e12)),
    reason TEXT NOT NULL,
    environment TEXT NOT NULL,
    manifest TEXT NOT NULL REFERENCES manifests (hash),
    flags TEXT NOT NULL CHECK (json_valid(flags)),
    sha256 TEXT, folder_label TEXT NOT NULL DEFAULT '',
    CHECK (state <> 'ok' OR correctness = 'correct'),
    CHECK (state <> 'incorrect' OR correctness = 'wrong'),
    CHECK (validity <> 'caught' OR verdict NOT IN ('faster', 'slower')),
    CHECK (state IN ('planned', 'starting', 'running', 'ok') OR reason <> ''),
    CHECK ((state IN ('planned', 'starting', 'running')) = (sha256 IS NULL))
) STRICT;
INSERT INTO "runs" VALUES(1,'01J00000000000000000000001','ch07:transpose',X'2F686F6D652F6164612F6B65726E656C732F636166E9','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',1,'2026-05-04T10:20:30.123+00:00','29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','ok','correct','valid','faster',1,1000000000,1234.5,'','098484e6d40c837c081439537b3684457f36420d8d2075166f2dbd93a74fccff','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','["clocks=unlocked", "contended"]','08129b21cee6faf6914a9a50e1bba0ea0e0ece6e8bdc7db9bdd492be9c99fdf0','/home/ada/kernels/caf\xe9');
INSERT INTO "runs" VALUES(2,'01J00000000000000000000002','ch14:rmsnorm',X'2F7372762F6B65726E656C732F726D736E6F726D','A transpose that reads and writes whole cache lines','cpu','default',1,'watch','18446744073709551615','01J0000000ENG1NE0000000000',2,'2026-05-04T10:20:30.123+00:00','29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','ok','correct','valid','faster',1,1000000000,1234.5,'','098484e6d40c837c081439537b3684457f36420d8d2075166f2dbd93a74fccff','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','["clocks=unlocked", "contended"]','ceba00f64d7a6a9797cf5dcac54ae7cde2731a062a08d0ed1e3e12587a262775','/srv/kernels/rmsnorm');
INSERT INTO "runs" VALUES(3,'01J00000000000000000000003','ch01:saxpy',X'2F7372762F6B65726E656C732F7361787079','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',3,'2026-05-04T10:20:30.123+00:00','29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','incorrect','wrong','unknown','none',1,NULL,88.0,'optimized differs from the reference','098484e6d40c837c081439537b3684457f36420d8d2075166f2dbd93a74fccff','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]','94cd6e29e374c51eca4bd81fe248f4a90cfda069a50297dcb9ad6d719f4691d9','/srv/kernels/saxpy');
INSERT INTO "runs" VALUES(4,'01J00000000000000000000004','ch07:transpose',X'2F686F6D652F6164612F6B65726E656C732F636166E9','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',4,'2026-05-04T10:20:30.123+00:00','','cancelled','unknown','unknown','none',1,NULL,NULL,'cancelled','098484e6d40c837c081439537b3684457f36420d8d2075166f2dbd93a74fccff','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]','b06aed854840dd6a26e9137073521a4a50034c279a010d4a3176a2678ba6e5b8','/home/ada/kernels/caf\xe9');
INSERT INTO "runs" VALUES(5,'01J00000000000000000000005','ch14:rmsnorm',X'2F7372762F6B65726E656C732F726D736E6F726D','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',5,'2026-05-04T10:20:30.123+00:00','29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','running','unknown','unknown','none',1,5,NULL,'','098484e6d40c837c081439537b3684457f36420d8d2075166f2dbd93a74fccff','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]',NULL,'/srv/kernels/rmsnorm');
CREATE TABLE samples (
    run INTEGER NOT NULL,
    rung TEXT NOT NULL,
    count INTEGER NOT NULL CHECK (count >= 0),
    device_ms BLOB NOT NULL CHECK (length(device_ms) = 8 * count),
    host_ms BLOB NOT NULL CHECK (length(host_ms) = 8 * count),
    end_ns BLOB NOT NULL,
    round BLOB NOT NULL,
    replica BLOB NOT NULL,
    inputs BLOB NOT NULL,
    discarded BLOB NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64), sm_clock_mhz BLOB CHECK (length(sm_clock_mhz) = 8 * count),
    UNIQUE (run, rung),
    FOREIGN KEY (run, rung) REFERENCES arms (run, rung) ON DELETE CASCADE
) STRICT;
INSERT INTO "samples" VALUES(1,'baseline',6,X'E7FBC0342705F03FA4BFAC632FF5EF3FB1CA0DDE501AF03FF466DA884C04F03F447FBF3B3CD4EF3F49955C76D60EF03F',X'000000000000F87FBD0A5667F005AC3F375C72C73DC2A73F000000000000F87F5DE4B07D60F3A73FFA7344E8B698A93F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','06bf37f0d6f9ce6ef141eee1621dd6474bcb3313dc8c787f62ec1e503965c3e9',X'00000000003C9B400000000000689B400000000000549B40000000000000F87F0000000000609B400000000000649B40');
INSERT INTO "samples" VALUES(1,'optimized',6,X'8F8E4AFB2D0EF03F8C80BAC7CA21F03F2DA7649D8E0DF03FA5EAB81CF095EF3F9BE5D6724025F03F3DE1E4095312F03F',X'000000000000F87F132A4E3D2504AB3F7F90CE3DFD6FAA3F000000000000F87F800731B54390A93F98F9812A64ECAA3F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','3c208d76a048d018fce302978a0aea07c6fd39e30b1ccae5f14f61c60d590f20',X'00000000005C9B400000000000689B400000000000649B40000000000000F87F00000000006C9B400000000000689B40');
INSERT INTO "samples" VALUES(2,'baseline',6,X'E1E8513EC007F03F760656C649D5EF3FA704C64B3BDEEF3F21AD89B16A3AEF3F80681823624AF03F7C62BB58222FF03F',X'000000000000F87F5C61BD2FB48AAB3FCC9E9FFACD37AA3F000000000000F87F996485E0D71BAC3FA49C054425B6A83F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','187da8b732276e9ce27098a418d629d1b50f67ed711c551bec701a0ee19047f2',X'0000000000649B4000000000005C9B400000000000749B40000000000000F87F0000000000789B400000000000609B40');
INSERT INTO "samples" VALUES(3,'baseline',6,X'E8EA39777454F03F854F51E44A31EF3F14B908432911F03F39AA21BF9ED1EF3F8ED756B500DBEF3FB2B664785BEEEF3F',X'000000000000F87FDFE7C09514E8A83FF03668B9D060A73F000000000000F87FE813CC3CB512AA3FCB6B1CAF959BA83F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','fcbb35cbbcffa5ef4a4df31314df60c16ba893e8be0bb3475052ac55cd05261a',X'0000000000689B400000000000609B400000000000589B40000000000000F87F0000000000749B400000000000689B40');
CREATE TABLE snapshot_files (
    snapshot TEXT NOT NULL REFERENCES snapshots (hash),
    name BLOB NOT NULL CHECK (length(name) > 0),
    label TEXT NOT NULL,
    source TEXT NOT NULL REFERENCES sources (sha256),
    PRIMARY KEY (snapshot, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "snapshot_files" VALUES('29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39',X'626173656C696E652E7079','baseline.py','5eee46151d724e74273e19b83d8b2ea190bf90edda17e98d443b2fcc1f92a43a');
INSERT INTO "snapshot_files" VALUES('29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39',X'6F7074696D697A65642E7079','optimized.py','29b04203aa2b56f19011cc34fdd2898d5764c6b52d7926c7461061cc529a6a10');
CREATE TABLE snapshots (
    hash TEXT PRIMARY KEY NOT NULL CHECK (length(hash) = 64),
    wall TEXT NOT NULL
) STRICT;
INSERT INTO "snapshots" VALUES('29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','2026-11-21T07:20:50.540+00:00');
CREATE TABLE sources (
    sha256 TEXT PRIMARY KEY NOT NULL CHECK (length(sha256) = 64),
    content BLOB NOT NULL
) STRICT;
INSERT INTO "sources" VALUES('5eee46151d724e74273e19b83d8b2ea190bf90edda17e98d443b2fcc1f92a43a',X'6465662072756E2878293A0A2020202072657475726E20782E542E636F6E746967756F757328290A');
INSERT INTO "sources" VALUES('29b04203aa2b56f19011cc34fdd2898d5764c6b52d7926c7461061cc529a6a10',X'6465662072756E2878293A202E2E2E0A');
CREATE TABLE steps (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    name TEXT NOT NULL,
    arm TEXT NOT NULL,
    start_ns INTEGER NOT NULL,
    duration_ms REAL NOT NULL CHECK (duration_ms >= 0 AND duration_ms < 1e12),
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "steps" VALUES(1,0,'compile','optimized',1000000000,812.0);
INSERT INTO "steps" VALUES(1,1,'verdict','',2000000000,0.0);
INSERT INTO "steps" VALUES(2,0,'compile','optimized',1000000000,812.0);
INSERT INTO "steps" VALUES(2,1,'verdict','',2000000000,0.0);
CREATE TABLE telemetry (
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    count INTEGER NOT NULL CHECK (count >= 0),
    at_ns BLOB NOT NULL,
    sm_clock_mhz BLOB NOT NULL CHECK (length(sm_clock_mhz) = 8 * count),
    memory_clock_mhz BLOB NOT NULL CHECK (length(memory_clock_mhz) = 8 * count),
    temperature_c BLOB NOT NULL CHECK (length(temperature_c) = 8 * count),
    power_w BLOB NOT NULL CHECK (length(power_w) = 8 * count),
    throttle BLOB NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;
INSERT INTO "telemetry" VALUES(1,3,X'7801633835CB9A01081A764DB503D10CAB27388228004BD50529',X'0000000000F09E40000000000000F87F0000000000F09E40',X'000000000076A440000000000000F87F000000000076A440',X'000000000000444000000000006049400000000000C04E40',X'000000000080564000000000006278400000000000928540',X'780163618080FF50C002E5030064340801','de4b392a426ee9c3252a6c8ab0c8bbd68370c88e6df9e6dc4b1ce889a52d8483');
INSERT INTO "telemetry" VALUES(3,2,X'7801633835CB9A01081A764DB503D100251B03AD',X'0000000000F09E40000000000000F87F',X'000000000076A440000000000000F87F',X'00000000000044400000000000C04E40',X'00000000008056400000000000928540',X'780163618080FF500000242C07FD','ccf32be2a6510783edfe0fb1c1f6e30a507aed9f7e798f5f822218383002194c');
CREATE INDEX runs_target ON runs (target);
CREATE INDEX runs_finished ON runs (target)
    WHERE state NOT IN ('planned', 'starting', 'running', 'cancelled', 'engine_lost');
CREATE INDEX runs_unfinished ON runs (epoch) WHERE state IN ('planned', 'starting', 'running');
CREATE INDEX peaks_gpu ON peaks (gpu_uuid);
