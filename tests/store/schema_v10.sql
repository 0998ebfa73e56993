-- A store of schema version 10: schema_v9.sql as its migration left it. Never edited: files like it exist.
PRAGMA application_id = 1634300784;
PRAGMA user_version = 10;
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
    CHECK (quality IS NULL OR (json_valid(quality) AND json_type(quality) = 'object')), naive TEXT
    CHECK (naive IS NULL OR (json_valid(naive) AND json_type(naive) = 'object')), launches INTEGER CHECK (launches >= 0), rule TEXT CHECK (rule IS NULL OR (json_valid(rule) AND json_type(rule) = 'object')), ranks TEXT CHECK (ranks IS NULL OR (json_valid(ranks) AND json_type(ranks) = 'object')),
    PRIMARY KEY (run, position),
    UNIQUE (run, rung),
    -- SQLite keeps NaN as NULL: an interval around nothing is what a NaN median leaves behind.
    CHECK (median_ms IS NOT NULL OR (low_ms IS NULL AND high_ms IS NULL)),
    CHECK (median_ms IS NULL OR (timing <> 'none' AND sample_count > 0 AND correctness = 'correct')),
    CHECK (low_ms IS NULL OR high_ms IS NULL OR low_ms <= high_ms),
    CHECK (state <> 'ok' OR correctness = 'correct'),
    CHECK (state <> 'crashed' OR signal IS NOT NULL)
) STRICT, WITHOUT ROWID;
INSERT INTO "arms" VALUES(1,0,'baseline','ok','correct','cold graph',1.0,0.99,1.01,6,0.41,0.0,8589934592,NULL,NULL,0,0,'','','',16,1935.0,'{"clock_ms":0.41,"limiter":"bytes","measured_ms":0.45,"spec_ms":0.4}','{"autocorrelation":0.1,"drift":-0.0012,"overhead_ms":0.00128,"resolution_ms":3.2e-05,"throttled_share":0.0625}',NULL,NULL,NULL,NULL);
INSERT INTO "arms" VALUES(1,1,'optimized','ok','correct','cold graph',0.5,0.495,0.505,6,0.82,0.25,NULL,0,NULL,0,1,'','','',16,1980.0,'{"clock_ms":0.41,"limiter":"bytes","measured_ms":0.45,"score":0.9167,"spec_ms":0.4}','{"autocorrelation":0.1,"drift":-0.0012,"high_mode_ms":0.56,"high_share":0.25,"low_mode_ms":0.49,"overhead_ms":0.00128,"resolution_ms":3.2e-05,"throttled_share":0.0625}','{"accepts":true,"base_ms":1.02,"time_ms":0.49}',NULL,NULL,NULL);
INSERT INTO "arms" VALUES(3,0,'baseline','ok','correct','cold',1.0,0.99,1.01,100,0.41,0.0,8589934592,NULL,NULL,0,0,'','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "arms" VALUES(3,1,'optimized','ok','correct','cold',0.5,0.495,0.505,100,0.82,0.25,NULL,0,NULL,0,1,'','','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "arms" VALUES(4,0,'baseline','ok','correct','cold graph',1.0,0.99,1.01,6,0.41,0.0,8589934592,NULL,NULL,0,0,'','','',16,1935.0,'{"clock_ms":0.41,"limiter":"bytes","measured_ms":0.45,"spec_ms":0.4}','{"autocorrelation":0.1,"drift":-0.0012,"overhead_ms":0.00128,"resolution_ms":3.2e-05,"throttled_share":0.0625}',NULL,NULL,NULL,NULL);
INSERT INTO "arms" VALUES(4,1,'optimized','ok','correct','cold graph',0.5,0.495,0.505,6,0.82,0.25,NULL,0,NULL,0,1,'','','',16,1980.0,'{"clock_ms":0.41,"limiter":"bytes","measured_ms":0.45,"score":0.9167,"spec_ms":0.4}','{"autocorrelation":0.1,"drift":-0.0012,"high_mode_ms":0.56,"high_share":0.25,"low_mode_ms":0.49,"overhead_ms":0.00128,"resolution_ms":3.2e-05,"throttled_share":0.0625}',NULL,NULL,NULL,NULL);
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
CREATE TABLE chain (
    seq INTEGER PRIMARY KEY CHECK (seq >= 1),
    kind TEXT NOT NULL CHECK (kind IN (
        'origin', 'run', 'peak', 'fuzz', 'failure', 'quarantine', 'withdrawn', 'restored')),
    number INTEGER NOT NULL,
    subject TEXT NOT NULL,
    digest TEXT NOT NULL,
    link TEXT NOT NULL CHECK (length(link) = 64)
) STRICT;
INSERT INTO "chain" VALUES(1,'origin',8,'2026-11-26T12:34:24.503+00:00','09536ba24f951e857f04172efb467fe6dc939ea7334e863c38c6932fc13d8c2f','0625fa3aa7a4907a24ecb08a86305c517ba4dccfd266d4fd54fd2cf47d344e7f');
INSERT INTO "chain" VALUES(2,'run',1,'01J00000000000000000000001','c168789fdc27b97df7728f99783858a0be023ef7b887905382874cbcc8fd132a','5cb9807f545ee5385d05c4ef7cd2c20182427f5709c11f0b4c4b30273a7c2cd8');
INSERT INTO "chain" VALUES(3,'run',3,'01J00000000000000000000003','42db7e555de4ea3e4d203d59a19adcd4225fdf5dd43e4a42a6cb993d6402e417','84ca3605321a21c10d7f68e8e7fcdf0e7d78fea13d7ce846331e8fe6c567e244');
INSERT INTO "chain" VALUES(4,'run',4,'01J00000000000000000000006','2f23da031f014c4e35582a5ac930a1f05b3a11675c0ed248a22b2fbea19adc8e','bff9f06923a941c3913b6eace40c0d96eccab6a4d1059e2d67adf9fdc263339a');
INSERT INTO "chain" VALUES(5,'peak',1,'01J00000000000000000000000','3e6b6e3993cc95108e00093e4440b8a82c2cb784c030186ae7b9e546d2f48442','59193c6aa76d88364d58c0f3772dc7cce482e12f97fe7d0234d38b4ac5b10778');
INSERT INTO "chain" VALUES(6,'fuzz',1,'01J0000000000000000000000F','a223320f6790a3f6e46943bb141dc1dbb314025a93e3a756aa2ed83cf4101c3d','9073f1e91b5ee5d9488a80e2b48617aca499e63ed27155055b804654dbe06dd7');
INSERT INTO "chain" VALUES(7,'failure',1,'01M854R4Z2FXWF1C2R3YY4N2RD','34b99d452547a0a638fb57a3666ee6cefb011f12984fa5f190d055c5848c72e2','1dc7db7adbb1716fd4bc39580fc29667a7efb4d21b58020e656e57367fe7238a');
INSERT INTO "chain" VALUES(8,'failure',2,'01M854R4Z38585ZSBWE4F945J4','108d4ce2024063c2ce60f9fc465861a18c8df7003cd6def6ad456d83f34123b5','951a9b680ef01a4f679febd276886403d832be8e72a37489b865b697826f26ae');
INSERT INTO "chain" VALUES(9,'quarantine',1,'mine:softmax optimized','59cdfe6076a5d9bd8c7ccab53285106e7c864de5d47a189e8265157828bcd4b4','254e1ef8a58bf6f7ab2ddb3d91c5da856c6bba2b265bfbdb3cec97d23a4efbce');
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
INSERT INTO "comparisons" VALUES(3,0,'optimized','baseline','none',NULL,NULL,NULL,NULL,'optimized was caught: timing.wall_clock',NULL,NULL,NULL,NULL);
INSERT INTO "comparisons" VALUES(4,0,'optimized','baseline','faster',2.0,1.96,2.04,0.004,'',1.95,1.91,1.99,0.0001);
CREATE TABLE environments (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;
INSERT INTO "environments" VALUES('a60713036df363e11136baa6ea44d4a4cd1611773438d16de5b1e2cd6b3773c6','{"gpu":{"driver":"575.57","name":"NVIDIA H100 80GB HBM3"},"triton":"3.7.1"}');
CREATE TABLE failures (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    fuzz INTEGER NOT NULL REFERENCES fuzzes (number) ON DELETE CASCADE,
    target TEXT NOT NULL CHECK (target <> ''),
    rung TEXT NOT NULL CHECK (rung <> ''),
    wall TEXT NOT NULL,
    content TEXT NOT NULL CHECK (json_valid(content) AND json_type(content) = 'object'),
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;
INSERT INTO "failures" VALUES(1,'01M854R4Z2FXWF1C2R3YY4N2RD',1,'ch07:transpose','optimized','2026-05-04T10:00:00.000+00:00','{"case":{"axes":{"M":1,"N":129},"dtype":"float16","number":0,"strategy":"boundary"},"detail":"1 of 129 elements; worst at [0, 128]: got 0.5, expected 1.5","device":"cuda","drawn":{"axes":{"M":61,"N":129},"dtype":"float16","number":0,"strategy":"boundary"},"finding":"mismatch","fuzz":"01J0000000000000000000000F","histogram":[128,0,0,0,0,0,0,0,0,0,1],"id":"01M854R4Z2FXWF1C2R3YY4N2RD","input_hashes":{"x":"1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"},"output":"y","output_hash":"2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e","region":["......",".....#"],"rung":"optimized","script":"import torch\n","seed":18446744073709551615,"snapshot":"abababababababababababababababababababababababababababababababab","stage":"gate","statistics":{"count":1,"max_abs":1.0,"max_ulp":"inf"},"strategy":"boundary","target":"ch07:transpose","tried":17,"verdict":"wrong","versions":{"device":"NVIDIA H100 80GB HBM3","torch":"2.11.0"},"wall":"2026-05-04T10:00:00.000+00:00"}','34b99d452547a0a638fb57a3666ee6cefb011f12984fa5f190d055c5848c72e2');
INSERT INTO "failures" VALUES(2,'01M854R4Z38585ZSBWE4F945J4',1,'ch07:transpose','optimized','2026-05-04T10:00:00.000+00:00','{"case":{"axes":{"M":1,"N":129},"dtype":"float16","number":7,"strategy":"mixed"},"detail":"1 of 129 elements; worst at [0, 128]: got 0.5, expected 1.5","device":"cuda","drawn":{"axes":{"M":61,"N":129},"dtype":"float16","number":7,"strategy":"mixed"},"finding":"mismatch","fuzz":"01J0000000000000000000000F","histogram":[128,0,0,0,0,0,0,0,0,0,1],"id":"01M854R4Z38585ZSBWE4F945J4","input_hashes":{"x":"1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"},"output":"y","output_hash":"2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e","region":["......",".....#"],"rung":"optimized","script":"import torch\n","seed":18446744073709551615,"snapshot":"abababababababababababababababababababababababababababababababab","stage":"gate","statistics":{"count":1,"max_abs":1.0,"max_ulp":"inf"},"strategy":"mixed","target":"ch07:transpose","tried":17,"verdict":"wrong","versions":{"device":"NVIDIA H100 80GB HBM3","torch":"2.11.0"},"wall":"2026-05-04T10:00:00.000+00:00"}','108d4ce2024063c2ce60f9fc465861a18c8df7003cd6def6ad456d83f34123b5');
CREATE TABLE findings (
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    count INTEGER NOT NULL CHECK (count > 0),
    notable TEXT NOT NULL CHECK (json_valid(notable) AND json_type(notable) = 'array'),
    others BLOB NOT NULL
) STRICT;
INSERT INTO "findings" VALUES(1,2,'[]',X'789C8B8E36D0512AC9CCCDCC4BD72B4FCCC9894FCEC94FCE56D2514A4A2C4ECDC9CC4B05320B128B8B5353800C033D530385DC6285C4BC140520DB08C8568AD58936C46E427E0148B40AAC13BF11B100573329E6');
INSERT INTO "findings" VALUES(3,3,'[[2,"timing.wall_clock","optimized","caught","0.41 ms by events, 9.8 ms by the engine''s clock"]]',X'789C8B8E36D0512AC9CCCDCC4BD72B4FCCC9894FCEC94FCE56D2514A4A2C4ECDC9CC4B05320B128B8B5353800C033D530385DC6285C4BC140520DB08C8568AD58936C46E427E0148B40AAC13BF11B100573329E6');
CREATE TABLE fuzzes (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    target TEXT NOT NULL CHECK (target <> ''),
    folder BLOB NOT NULL,
    device TEXT NOT NULL,
    wall TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('done', 'cancelled', 'failed', 'unavailable')),
    content TEXT NOT NULL CHECK (json_valid(content) AND json_type(content) = 'object'),
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;
INSERT INTO "fuzzes" VALUES(1,'01J0000000000000000000000F','ch07:transpose',X'2F686F6D652F6164612F6B65726E656C732F636166E9','cuda','2026-05-04T10:00:00.000+00:00','done','{"cases":40,"device":"cuda","duration_ms":1234.5,"environment":"","folder":"/home/ada/kernels/caf\\xe9","folder_hex":"2f686f6d652f6164612f6b65726e656c732f636166e9","id":"01J0000000000000000000000F","notes":["the reference was computed in blocks"],"reason":"","rungs":[{"by_strategy":{"boundary":{"cases":20,"failing":4,"unsupported":2},"mixed":{"cases":20,"failing":1,"unsupported":0}},"cases":40,"failing":5,"failures":["01M854R4Z2FXWF1C2R3YY4N2RD","01M854R4Z38585ZSBWE4F945J4"],"max_error":0.25,"naive":{"allclose":true,"assert_close":false},"reason":"","rung":"optimized","took_ms":812,"unsupported":2,"verdict":"wrong"},{"by_strategy":{},"cases":0,"failing":0,"failures":[],"max_error":null,"naive":null,"reason":"needs sm_100","rung":"optimized_swizzled","took_ms":0.0,"unsupported":0,"verdict":"undecided"}],"seed":18446744073709551615,"snapshot":"abababababababababababababababababababababababababababababababab","state":"done","strategies":["boundary","mixed"],"target":"ch07:transpose","title":"A transpose that reads and writes whole cache lines","wall":"2026-05-04T10:00:00.000+00:00"}','a223320f6790a3f6e46943bb141dc1dbb314025a93e3a756aa2ed83cf4101c3d');
CREATE TABLE manifests (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;
INSERT INTO "manifests" VALUES('b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','{"replicas":5,"sets":[1,2,3],"stop":{"interval":0.01,"max_rounds":200}}');
INSERT INTO "manifests" VALUES('162f0f32725cd72932a46762be000d69218c11273308c383d45523ad66f609a3','{"code":"c0de","replicas":5,"sets":[1,2,3],"stop":{"interval":0.01,"max_rounds":200},"validity":"strict","without":[]}');
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
CREATE TABLE quarantines (
    number INTEGER PRIMARY KEY,
    folder BLOB NOT NULL,
    rung TEXT NOT NULL CHECK (rung <> ''),
    code TEXT NOT NULL,
    target TEXT NOT NULL,
    device TEXT NOT NULL,
    run TEXT NOT NULL CHECK (run <> ''),
    "check" TEXT NOT NULL CHECK ("check" <> ''),
    evidence TEXT NOT NULL,
    wall TEXT NOT NULL,
    ended_by TEXT CHECK (ended_by <> ''),
    UNIQUE (folder, rung, code)
) STRICT;
INSERT INTO "quarantines" VALUES(1,X'2F686F6D652F6164612F6D696E65','optimized','c0de','mine:softmax','cuda','01J00000000000000000000003','timing.wall_clock','0.41 ms by events, 9.8 ms by the engine''s clock','2026-05-04T10:20:30.123+00:00',NULL);
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
INSERT INTO "runs" VALUES(1,'01J00000000000000000000001','ch07:transpose',X'2F686F6D652F6164612F6B65726E656C732F636166E9','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',1,'2026-05-04T10:20:30.123+00:00','93e23713edf8e910cf2a547e2f5ea605676180c08b9ce94a6dc38f97c8345386','ok','correct','valid','faster',1,1000000000,1234.5,'','a60713036df363e11136baa6ea44d4a4cd1611773438d16de5b1e2cd6b3773c6','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','["clocks=unlocked", "contended"]','c168789fdc27b97df7728f99783858a0be023ef7b887905382874cbcc8fd132a','/home/ada/kernels/caf\xe9');
INSERT INTO "runs" VALUES(2,'01J00000000000000000000002','ch14:rmsnorm',X'2F7372762F6B65726E656C732F726D736E6F726D','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',2,'2026-05-04T10:20:30.123+00:00','','running','unknown','unknown','none',1,5,NULL,'','','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','[]',NULL,'/srv/kernels/rmsnorm');
INSERT INTO "runs" VALUES(3,'01J00000000000000000000003','mine:softmax',X'2F686F6D652F6164612F6D696E65','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',3,'2026-05-04T10:20:30.123+00:00','','ok','correct','caught','none',1,1000000000,1234.5,'','','162f0f32725cd72932a46762be000d69218c11273308c383d45523ad66f609a3','["clocks=unlocked", "contended"]','42db7e555de4ea3e4d203d59a19adcd4225fdf5dd43e4a42a6cb993d6402e417','/home/ada/mine');
INSERT INTO "runs" VALUES(4,'01J00000000000000000000006','ch09:second_clock',X'2F686F6D652F6164612F6B65726E656C732F636166E9','A transpose that reads and writes whole cache lines','cuda','default',0,'cli','18446744073709551615','01J0000000ENG1NE0000000000',7,'2026-05-04T10:20:30.123+00:00','','ok','correct','valid','faster',1,1000000000,1234.5,'','','b9a9d8e7332b608b5118f68f231262c804c1212f7cdc19a138027fedc9241373','["clocks=unlocked", "contended"]','2f23da031f014c4e35582a5ac930a1f05b3a11675c0ed248a22b2fbea19adc8e','/home/ada/kernels/caf\xe9');
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
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64), sm_clock_mhz BLOB CHECK (length(sm_clock_mhz) = 8 * count), probe_ms BLOB CHECK (length(probe_ms) = 8 * count), cycles BLOB CHECK (length(cycles) = 8 * count), rank_ms BLOB CHECK (length(rank_ms) % max(8 * count, 1) = 0), rank_late_us BLOB CHECK (length(rank_late_us) % max(8 * count, 1) = 0), rank_clock_mhz BLOB CHECK (length(rank_clock_mhz) % max(8 * count, 1) = 0),
    UNIQUE (run, rung),
    FOREIGN KEY (run, rung) REFERENCES arms (run, rung) ON DELETE CASCADE
) STRICT;
INSERT INTO "samples" VALUES(1,'baseline',6,X'E7FBC0342705F03FA4BFAC632FF5EF3FB1CA0DDE501AF03FF466DA884C04F03F447FBF3B3CD4EF3F49955C76D60EF03F',X'000000000000F87FBD0A5667F005AC3F375C72C73DC2A73F000000000000F87F5DE4B07D60F3A73FFA7344E8B698A93F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','06bf37f0d6f9ce6ef141eee1621dd6474bcb3313dc8c787f62ec1e503965c3e9',X'00000000003C9B400000000000689B400000000000549B40000000000000F87F0000000000609B400000000000649B40',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "samples" VALUES(1,'optimized',6,X'8F8E4AFB2D0EF03F8C80BAC7CA21F03F2DA7649D8E0DF03FA5EAB81CF095EF3F9BE5D6724025F03F3DE1E4095312F03F',X'000000000000F87F132A4E3D2504AB3F7F90CE3DFD6FAA3F000000000000F87F800731B54390A93F98F9812A64ECAA3F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','3c208d76a048d018fce302978a0aea07c6fd39e30b1ccae5f14f61c60d590f20',X'00000000005C9B400000000000689B400000000000649B40000000000000F87F00000000006C9B400000000000689B40',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "samples" VALUES(4,'baseline',6,X'E7FBC0342705F03FA4BFAC632FF5EF3FB1CA0DDE501AF03FF466DA884C04F03F447FBF3B3CD4EF3F49955C76D60EF03F',X'000000000000F87FBD0A5667F005AC3F375C72C73DC2A73F000000000000F87F5DE4B07D60F3A73FFA7344E8B698A93F',X'7801633835CB9A0108269C5F05A615AEEE02D31B6E9D02D30E0F6E81E90B4F5F8169004B2C0D6C',X'78016360C00F18A1D2301A0000480003',X'78016360200D000000300001',X'7801636080004628CD04A56114BA380000B80007',X'78016360200E304295010000380002','8ccecac518e77a7b393314b681f208241049fee72bc50ed3755f1a24a3060b96',X'00000000003C9B400000000000689B400000000000549B40000000000000F87F0000000000609B400000000000649B40',X'30B39C27E510F03F39DF94B9EC2AF03F5D51142A7AF5EF3F000000000000F87F34BBD526B0C9EF3F1958FD556C0EF03F',X'000000001DD93A41000000004EC93A4100000000F3B83A41000000000000F87F0000000087BE3A4100000000C5CB3A41',NULL,NULL,NULL);
CREATE TABLE snapshot_files (
    snapshot TEXT NOT NULL REFERENCES snapshots (hash),
    name BLOB NOT NULL CHECK (length(name) > 0),
    label TEXT NOT NULL,
    source TEXT NOT NULL REFERENCES sources (sha256),
    PRIMARY KEY (snapshot, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "snapshot_files" VALUES('93e23713edf8e910cf2a547e2f5ea605676180c08b9ce94a6dc38f97c8345386',X'626173656C696E652E7079','baseline.py','defd11b9c5d9b6cee6370d4012011b03ebee186c13379b517aba972489be1c6e');
INSERT INTO "snapshot_files" VALUES('93e23713edf8e910cf2a547e2f5ea605676180c08b9ce94a6dc38f97c8345386',X'6F7074696D697A65642E7079','optimized.py','29b04203aa2b56f19011cc34fdd2898d5764c6b52d7926c7461061cc529a6a10');
CREATE TABLE snapshots (
    hash TEXT PRIMARY KEY NOT NULL CHECK (length(hash) = 64),
    wall TEXT NOT NULL
) STRICT;
INSERT INTO "snapshots" VALUES('93e23713edf8e910cf2a547e2f5ea605676180c08b9ce94a6dc38f97c8345386','2026-11-22T11:25:19.474+00:00');
CREATE TABLE sources (
    sha256 TEXT PRIMARY KEY NOT NULL CHECK (length(sha256) = 64),
    content BLOB NOT NULL
) STRICT;
INSERT INTO "sources" VALUES('defd11b9c5d9b6cee6370d4012011b03ebee186c13379b517aba972489be1c6e',X'6465662072756E2878293A2072657475726E20780A');
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
INSERT INTO "steps" VALUES(3,0,'compile','optimized',1000000000,812.0);
INSERT INTO "steps" VALUES(3,1,'verdict','',2000000000,0.0);
INSERT INTO "steps" VALUES(4,0,'compile','optimized',1000000000,812.0);
INSERT INTO "steps" VALUES(4,1,'verdict','',2000000000,0.0);
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
CREATE INDEX runs_target ON runs (target);
CREATE INDEX runs_finished ON runs (target)
    WHERE state NOT IN ('planned', 'starting', 'running', 'cancelled', 'engine_lost');
CREATE INDEX runs_unfinished ON runs (epoch) WHERE state IN ('planned', 'starting', 'running');
CREATE INDEX peaks_gpu ON peaks (gpu_uuid);
CREATE INDEX quarantines_in_force ON quarantines (folder) WHERE ended_by IS NULL;
CREATE INDEX fuzzes_target ON fuzzes (target);
CREATE INDEX failures_fuzz ON failures (fuzz);
CREATE INDEX failures_target ON failures (target);
CREATE VIEW hidden AS
SELECT comparisons.run AS run, comparisons.position AS position, quarantines.rung AS rung,
    quarantines."check" AS "check", quarantines.evidence AS evidence
FROM comparisons
JOIN runs ON runs.number = comparisons.run
JOIN manifests ON manifests.hash = runs.manifest
JOIN quarantines ON quarantines.folder = runs.folder
    AND quarantines.rung IN (replace(comparisons.rung, ' (A/A)', ''), replace(comparisons.baseline, ' (A/A)', ''))
    AND quarantines.code <> ''
    AND quarantines.code = json_extract(manifests.content, '$.code')
WHERE comparisons.speedup IS NOT NULL OR comparisons.verdict <> 'none';
CREATE INDEX samples_sha256 ON samples (run, rung, sha256);
