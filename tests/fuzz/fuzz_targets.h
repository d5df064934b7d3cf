// What fuzzers feed: everything that reads bytes from outside this process. Each target takes any bytes at
// all and ends the process when a promise of the code under it is broken. libFuzzer drives them (tools/check
// --fuzz); corpus_test replays the kept corpus in the ordinary tests.
#pragma once

#include <string_view>

namespace mtrun::fuzz {

/// Messages of agents and services: what decodes can be encoded and decodes to the same again.
void FuzzMessages(std::string_view bytes);
/// Lines of the channel between a worker and its agent, as they come in.
void FuzzChannel(std::string_view bytes);
/// The job's state machine, driven by a cluster that the bytes describe, against
/// tests/rendezvous/properties.h.
void FuzzStateMachine(std::string_view bytes);
/// Flags, environment and YAML files of a program, and a worker's environment.
void FuzzSettings(std::string_view bytes);
/// Headers of safetensors files.
void FuzzSafetensors(std::string_view bytes);
/// Error files of workers, and what mtrun's own error file makes of them.
void FuzzErrorFile(std::string_view bytes);
/// What ranks say while they connect, and strangers instead of them.
void FuzzGreeting(std::string_view bytes);
/// Frames of a rank on another host, during two calls.
void FuzzFrames(std::string_view bytes);
/// The shared memory of a rank on the same host.
void FuzzSegment(std::string_view bytes);
/// Archives, the sets of the MNIST family and of CIFAR, as mtdata reads them.
void FuzzTar(std::string_view bytes);
void FuzzIdx(std::string_view bytes);
void FuzzCifar(std::string_view bytes);
/// Archives of images, archives in them included, as trees of files.
void FuzzArchive(std::string_view bytes);
/// Lists that say what a source holds: braces, classes, ground truth, WebDataset's labels.
void FuzzSources(std::string_view bytes);
/// JPEG and PNG files.
void FuzzImages(std::string_view bytes);
/// index.json and shards of a packed data set.
void FuzzIndex(std::string_view bytes);
/// What a training run continues from: manifest, state, ledger, metrics; and the claims of other ranks.
void FuzzCheckpoint(std::string_view bytes);
/// What mtreport reads of a run folder, a line each: metrics, or behind a letter ledger, settings,
/// environment, report and manifest; and the page of it.
void FuzzReport(std::string_view bytes);
/// Clients of PyTorch's store that the agent serves.
void FuzzTcpStore(std::string_view bytes);
/// Lists and files of hosts for ssh, and what the ends of such a connection say to each other.
void FuzzHosts(std::string_view bytes);
/// What a process manager answers over PMI2.
void FuzzPmi(std::string_view bytes);
/// What a browser sends to the live page: headers, cookies, forms, credentials.
void FuzzPage(std::string_view bytes);
/// Python's pickles and the zip archives around them (.pth files).
void FuzzPickle(std::string_view bytes);

/// Requests, ranges and paths at a server of data sets; its URLs, redirects, and what fetchers are told.
void FuzzServing(std::string_view bytes);

}  // namespace mtrun::fuzz
