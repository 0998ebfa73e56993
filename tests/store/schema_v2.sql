-- A store of schema version 2: four ended runs and one under way. Never edited: files like it exist.
PRAGMA application_id = 1634300784;
PRAGMA user_version = 2;
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
    sources TEXT NOT NULL,
    PRIMARY KEY (run, position),
    UNIQUE (run, rung),
    -- SQLite keeps NaN as NULL: an interval around nothing is what a NaN median leaves behind.
    CHECK (median_ms IS NOT NULL OR (low_ms IS NULL AND high_ms IS NULL)),
    CHECK (median_ms IS NULL OR (timing <> 'none' AND sample_count > 0 AND correctness = 'correct')),
    CHECK (low_ms IS NULL OR high_ms IS NULL OR low_ms <= high_ms),
    CHECK (state <> 'ok' OR correctness = 'correct'),
    CHECK (state <> 'crashed' OR signal IS NOT NULL)
) STRICT, WITHOUT ROWID;
INSERT INTO "arms" VALUES(1,0,'baseline','ok','correct','cold',1.0,0.99,1.01,6,0.41,0.0,8589934592,NULL,NULL,0,0,'','','');
INSERT INTO "arms" VALUES(1,1,'optimized','ok','correct','cold',0.5,0.495,0.505,6,0.82,0.25,NULL,0,NULL,0,1,'','','');
INSERT INTO "arms" VALUES(2,0,'baseline','ok','correct','host',1.0,0.99,1.01,6,NULL,0.0,NULL,NULL,NULL,0,0,'','','');
INSERT INTO "arms" VALUES(2,1,'optimized','ok','correct','host',0.5,0.495,0.505,6,NULL,0.25,NULL,0,NULL,0,1,'','','');
INSERT INTO "arms" VALUES(3,0,'baseline','ok','correct','cold+host',1.0,0.99,1.01,6,0.41,0.0,8589934592,NULL,NULL,0,0,'','','');
INSERT INTO "arms" VALUES(3,1,'optimized','incorrect','wrong','none',NULL,NULL,NULL,0,NULL,9e999,NULL,NULL,NULL,0,0,'','y[7] is inf, not 1.5','');
INSERT INTO "arms" VALUES(4,0,'optimized','crashed','unknown','none',NULL,NULL,NULL,0,NULL,NULL,NULL,-11,11,0,0,'SIGSEGV; look at its pointers','','');
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
    note TEXT NOT NULL,
    PRIMARY KEY (run, position),
    CHECK (verdict IN ('undecided', 'none')
        OR (speedup IS NOT NULL AND low IS NOT NULL AND high IS NOT NULL)),
    CHECK (verdict <> 'faster' OR low > 1),
    CHECK (verdict <> 'slower' OR high < 1)
) STRICT, WITHOUT ROWID;
INSERT INTO "comparisons" VALUES(1,0,'optimized','baseline','faster',2.0,1.96,2.04,0.004,'');
INSERT INTO "comparisons" VALUES(2,0,'optimized','baseline','undecided',1.04,0.98,1.1,0.004,'12 replicas would decide');
CREATE TABLE environments (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;
INSERT INTO "environments" VALUES('53b63e98f61ea2912f71a09020594dd568968be47d1d4989cc8ddc88f7614f60','{"gpu":{"name":"NVIDIA H100","uuid":"GPU-0"},"torch":"2.11.0+cu130"}');
CREATE TABLE manifests (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;
INSERT INTO "manifests" VALUES('b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','{"replicas":5,"sets":[1,2,3],"stop":{"interval":0.01,"max_rounds":200}}');
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
INSERT INTO "runs" VALUES(1,'01J00000000000000000000001','ch07:transpose',X'2F686F6D652F6164612F6B65726E656C732F636166E9','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',7,'2026-05-04T10:20:30.123+00:00','29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','ok','correct','valid','faster',1,1000000000,1234.5,'','53b63e98f61ea2912f71a09020594dd568968be47d1d4989cc8ddc88f7614f60','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','["clocks=unlocked", "contended"]','c07d32c2c4e83346b55b343e868bd7322d8971cdebedf9b09ffd143be1a26f39','/home/ada/kernels/caf\xe9');
INSERT INTO "runs" VALUES(2,'01J00000000000000000000002','ch14:rmsnorm',X'2F686F6D652F6164612F6B65726E656C732F636166E9','A transpose that reads and writes whole cache lines','cpu','default',1,'watch','18446744073709551615','01J0000000ENG1NE0000000000',8,'2026-05-04T10:20:30.123+00:00','','ok','correct','valid','undecided',1,1000000000,1234.5,'','','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]','10596aa73a8b249bf900a428e4129b3674de3310dabc264e34ca31db756a20ab','/home/ada/kernels/caf\xe9');
INSERT INTO "runs" VALUES(3,'01J00000000000000000000003','ch01:saxpy',X'2F7372762F6B65726E656C732F7361787079','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',9,'2026-05-04T10:20:30.123+00:00','','incorrect','wrong','unknown','none',1,NULL,NULL,'optimized: 3 of 4096 outputs are wrong','53b63e98f61ea2912f71a09020594dd568968be47d1d4989cc8ddc88f7614f60','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]','30a7671290d7e6621560f70510c9079bcfd8a2fc7c522e4048f7c800a27b3cbe','/srv/kernels/saxpy');
INSERT INTO "runs" VALUES(4,'01J00000000000000000000004','ch07:transpose',X'2F686F6D652F6164612F6B65726E656C732F636166E9','A transpose that reads and writes whole cache lines','cuda','default',0,'tui','18446744073709551615','01J0000000ENG1NE0000000000',10,'2026-05-04T10:20:30.123+00:00','29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','crashed','unknown','unknown','none',1,NULL,3.5,'optimized died of SIGSEGV','53b63e98f61ea2912f71a09020594dd568968be47d1d4989cc8ddc88f7614f60','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]','753434cedb54bfd5028c440698415b15977059b2ef5d3d27d84b8d4673bfdce3','/home/ada/kernels/caf\xe9');
INSERT INTO "runs" VALUES(5,'01J00000000000000000000005','ch14:rmsnorm',X'2F7372762F6B65726E656C732F726D736E6F726D','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',11,'2026-05-04T10:20:30.123+00:00','','running','unknown','unknown','none',1,77,NULL,'','','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]',NULL,'/srv/kernels/rmsnorm');
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
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    UNIQUE (run, rung),
    FOREIGN KEY (run, rung) REFERENCES arms (run, rung) ON DELETE CASCADE
) STRICT;
INSERT INTO "samples" VALUES(1,'baseline',6,X'E7FBC0342705F03FA4BFAC632FF5EF3FB1CA0DDE501AF03FF466DA884C04F03F447FBF3B3CD4EF3F49955C76D60EF03F',X'000000000000F87FBD0A5667F005AC3F375C72C73DC2A73F000000000000F87F5DE4B07D60F3A73FFA7344E8B698A93F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','fe6e12854e47550357b96e7821ee02f5d32e0fdb54e505f5f2d702ef19e753d3');
INSERT INTO "samples" VALUES(1,'optimized',6,X'8F8E4AFB2D0EF03F8C80BAC7CA21F03F2DA7649D8E0DF03FA5EAB81CF095EF3F9BE5D6724025F03F3DE1E4095312F03F',X'000000000000F87F132A4E3D2504AB3F7F90CE3DFD6FAA3F000000000000F87F800731B54390A93F98F9812A64ECAA3F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','1deeb83a23ff92e5cc556ae9506c396157c6c374eb27ff041e1f6d797885d0d2');
INSERT INTO "samples" VALUES(2,'baseline',6,X'E1E8513EC007F03F760656C649D5EF3FA704C64B3BDEEF3F21AD89B16A3AEF3F80681823624AF03F7C62BB58222FF03F',X'000000000000F87F5C61BD2FB48AAB3FCC9E9FFACD37AA3F000000000000F87F996485E0D71BAC3FA49C054425B6A83F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','c202407de0009644697b73ba814078eee0877787cc890fc9c0668b42a133e408');
INSERT INTO "samples" VALUES(3,'baseline',6,X'E8EA39777454F03F854F51E44A31EF3F14B908432911F03F39AA21BF9ED1EF3F8ED756B500DBEF3FB2B664785BEEEF3F',X'000000000000F87FDFE7C09514E8A83FF03668B9D060A73F000000000000F87FE813CC3CB512AA3FCB6B1CAF959BA83F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','e093241820d3435a82c49016fb88b95d20d4ca440afa3b72063dbfc8fcf1c746');
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
INSERT INTO "snapshots" VALUES('29b93ed526d2450a2a10633686cabd8e3f0f88428cd8622fd42688aa3b364a39','2026-11-21T04:17:44.204+00:00');
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
