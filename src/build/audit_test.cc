// SPDX-License-Identifier: Apache-2.0
#include "build/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "build/x86.h"

namespace cupel::build {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::byte> Code(std::initializer_list<unsigned> bytes) {
  std::vector<std::byte> code;
  for (const unsigned byte : bytes) code.push_back(static_cast<std::byte>(byte));
  return code;
}

size_t Length(std::initializer_list<unsigned> bytes) {
  auto code = Code(bytes);
  code.resize(code.size() + 15, std::byte{0x90});  // followed by more code
  return InstructionLength(code);
}

/// An object like those of the compiler.
SharedObject Plain(std::vector<std::string> undefined) {
  SharedObject object;
  object.undefined = std::move(undefined);
  object.stack = SharedObject::Stack::kPlain;
  object.constructors = 2;
  return object;
}

TEST(X86, DecodesInstructionLengths) {
  EXPECT_EQ(Length({0x55}), 1u);                                 // push rbp
  EXPECT_EQ(Length({0x48, 0x89, 0xe5}), 3u);                     // mov rbp, rsp
  EXPECT_EQ(Length({0x48, 0x8b, 0x84, 0x24, 1, 2, 3, 4}), 8u);   // mov rax, [rsp + disp32]
  EXPECT_EQ(Length({0x8b, 0x05, 1, 2, 3, 4}), 6u);               // mov eax, [rip + disp32]
  EXPECT_EQ(Length({0x8b, 0x04, 0x8d, 1, 2, 3, 4}), 7u);         // mov eax, [rcx * 4 + disp32]
  EXPECT_EQ(Length({0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}), 10u);  // movabs rax, imm64
  EXPECT_EQ(Length({0x66, 0xc7, 0x45, 0xfe, 1, 2}), 6u);         // mov word [rbp - 2], imm16
  EXPECT_EQ(Length({0xf7, 0xc1, 1, 2, 3, 4}), 6u);               // test ecx, imm32
  EXPECT_EQ(Length({0xf7, 0xd9}), 2u);                           // neg ecx
  EXPECT_EQ(Length({0xf3, 0x0f, 0x1e, 0xfa}), 4u);               // endbr64
  EXPECT_EQ(Length({0x66, 0x0f, 0x3a, 0x0b, 0xc0, 0x09}), 6u);   // roundsd xmm0, xmm0, 9
  EXPECT_EQ(Length({0xc5, 0xf8, 0x77}), 3u);                     // vzeroupper
  EXPECT_EQ(Length({0xc4, 0xe2, 0x79, 0x18, 0x04, 0x24}), 6u);   // vbroadcastss xmm0, [rsp]
  EXPECT_EQ(Length({0x62, 0xf1, 0x7c, 0x48, 0x28, 0x44, 0x24, 0x01}), 8u);  // vmovaps zmm0, …
  EXPECT_EQ(Length({0x8f, 0xe8, 0x78, 0xc2, 0xec, 0x0e}), 6u);              // vprotd xmm5, …, 14
  EXPECT_EQ(Length({0x8f, 0xe9, 0x78, 0x81, 0xc1}), 5u);                    // vfrczpd xmm0, xmm1
  EXPECT_EQ(Length({0x8f, 0xea, 0x78, 0x10, 0xc1, 1, 2, 3, 4}), 9u);        // bextr eax, ecx, imm32
  EXPECT_EQ(Length({0x8f, 0xc0}), 2u);                                      // pop rax
  EXPECT_EQ(Length({0x66, 0x0f, 0x78, 0xc0, 1, 2}), 6u);                    // extrq xmm0, 1, 2
  EXPECT_EQ(Length({0xf2, 0x0f, 0x78, 0xd9, 1, 2}), 6u);                    // insertq xmm3, …, 1, 2
  EXPECT_EQ(Length({0x0f, 0x78, 0xd9}), 3u);                                // vmread rcx, rbx
  EXPECT_EQ(Length({0x06}), 0u);
  EXPECT_EQ(Length({0x8f, 0xeb, 0x78, 0x10, 0xc1}), 0u);
  EXPECT_EQ(InstructionLength(Code({0xe8, 1, 2})), 0u);  // cut off
}

TEST(X86, FindsSystemCallsButNotInConstants) {
  EXPECT_THAT(FindSystemCalls(Code({0x90, 0x0f, 0x05, 0xc3})).offsets, ElementsAre(1u));
  EXPECT_THAT(FindSystemCalls(Code({0xcd, 0x80, 0x0f, 0x34})).offsets, ElementsAre(0u, 2u));
  EXPECT_THAT(FindSystemCalls(Code({0x48, 0x0f, 0x05})).offsets, ElementsAre(0u));  // with a prefix
  // mov eax, 0x0005050f; lea rax, [rip + 0x050f]; mov eax, 0x80cd
  const SystemCalls none = FindSystemCalls(Code({0xb8, 0x0f, 0x05, 0x05, 0x00, 0x48, 0x8d, 0x05,
                                                 0x0f, 0x05, 0x00, 0x00, 0xb8, 0xcd, 0x80, 0, 0}));
  EXPECT_THAT(none.offsets, IsEmpty());
  EXPECT_EQ(none.undecoded, 0u);
  EXPECT_GT(FindSystemCalls(Code({0x06, 0x07, 0x90})).undecoded, 0u);
}

TEST(X86, FindsImpureInstructions) {
  // rdtsc; rdtscp; rdrand eax; rdseed rcx
  const SystemCalls found = FindSystemCalls(
      Code({0x0f, 0x31, 0x0f, 0x01, 0xf9, 0x0f, 0xc7, 0xf0, 0x48, 0x0f, 0xc7, 0xf9, 0xc3}));
  EXPECT_THAT(found.impure, ElementsAre("rdrand", "rdseed", "rdtsc", "rdtscp"));
  // rdpmc; rdpru; rdpid rax
  EXPECT_THAT(
      FindSystemCalls(Code({0x0f, 0x33, 0x0f, 0x01, 0xfd, 0xf3, 0x0f, 0xc7, 0xf8, 0xc3})).impure,
      ElementsAre("rdpid", "rdpmc", "rdpru"));
  // cmpxchg8b [rax]; mov eax, 0x0000310f
  EXPECT_THAT(FindSystemCalls(Code({0x0f, 0xc7, 0x08, 0xb8, 0x0f, 0x31, 0x00, 0x00})).impure,
              IsEmpty());
}

TEST(Audit, AcceptsHonestHostCode) {
  const Audit audit = AuditObject(
      Plain({"cudaMalloc", "__cudaRegisterFatBinary", "cublasSgemm_v2", "cupel_rt_alloc", "memcpy",
             "_Znwm", "_ZNSt6vectorIfSaIfEE9push_backEOf", "__cxa_guard_acquire", "printf", "sqrtf",
             "ceil", "__assert_fail", "exit", "__snprintf_chk", "strtoll", "_Unwind_Resume",
             "cuTensorMapEncodeTiled", "cuGetErrorName", "__udivti3"}));
  EXPECT_FALSE(audit.objection);
  EXPECT_THAT(audit.notes, IsEmpty());
}

TEST(Audit, RejectsForbiddenFunctions) {
  for (const auto& [symbol, purpose] :
       {std::pair("fork", "processes"), std::pair("system", "processes"),
        std::pair("socket", "network"), std::pair("fopen", "files"),
        std::pair("_ZNSt14basic_ifstreamIcSt11char_traitsIcEEC1EPKcSt13_Ios_Openmode", "files"),
        std::pair("pthread_create", "threads"),
        std::pair("_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EE"
                  "PFvvE",
                  "threads"),
        std::pair("syscall", "system calls"), std::pair("mprotect", "code"),
        std::pair("sigaction", "signals")}) {
    const Audit audit = AuditObject(Plain({"memcpy", symbol}));
    ASSERT_TRUE(audit.objection) << symbol;
    EXPECT_EQ(audit.objection->code, "host_privilege");
    EXPECT_THAT(audit.objection->message, HasSubstr(purpose));
  }
}

TEST(Audit, RejectsImpureFunctionsAndInstructions) {
  for (const auto& [symbol, what] :
       {std::pair("time", "reads a clock"),
        std::pair("_ZNSt6chrono3_V212steady_clock3nowEv", "reads a clock"),
        std::pair("_ZNSt13random_device9_M_getvalEv", "entropy"), std::pair("gettid", "process"),
        std::pair("sched_getcpu", "machine"), std::pair("getenv", "environment variables"),
        std::pair("secure_getenv", "environment variables"),
        std::pair("environ", "environment variables"),
        std::pair("_ZNSt6localeC1EPKc", "environment variables"),
        std::pair("program_invocation_name", "process"), std::pair("dl_iterate_phdr", "process")}) {
    for (const bool is_weak : {false, true}) {
      SharedObject object = Plain({"memcpy", symbol});
      if (is_weak) std::swap(object.undefined, object.weak);
      const Audit audit = AuditObject(object);
      ASSERT_TRUE(audit.objection) << symbol;
      EXPECT_EQ(audit.objection->code, "impure");
      EXPECT_THAT(audit.objection->message, HasSubstr(what));
    }
  }
  const auto code = Code({0x0f, 0x31, 0xc3});
  SharedObject object = Plain({});
  object.code.push_back({".text", code});
  ASSERT_TRUE(AuditObject(object).objection);
  EXPECT_THAT(AuditObject(object).objection->message, HasSubstr("rdtsc"));
  const auto unclear = Code({0x06, 0x07, 0x0f, 0x31, 0xc3});  // begins with an invalid instruction
  object = Plain({});
  object.code.push_back({".text", unclear});
  EXPECT_FALSE(AuditObject(object).objection);
  EXPECT_THAT(AuditObject(object).notes, Contains(HasSubstr("rdtsc")));
}

TEST(Audit, RejectsUnknownWeakSymbols) {
  SharedObject object = Plain({});
  object.weak = {"__cxa_finalize", "__gmon_start__", "_ITM_registerTMCloneTable",
                 "__cxa_pure_virtual", "pthread_mutex_lock"};
  EXPECT_FALSE(AuditObject(object).objection);
  for (const char* name : {"Py_IsInitialized", "cupel_rt_tensor", "cudaGraphDebugDotPrint",
                           "_ZN2at7Context10deviceTypeEv"}) {
    object.weak.back() = name;
    ASSERT_TRUE(AuditObject(object).objection) << name;
    EXPECT_EQ(AuditObject(object).objection->code, "impure");
  }
  object.weak.back() = "fork";
  ASSERT_TRUE(AuditObject(object).objection);
  EXPECT_EQ(AuditObject(object).objection->code, "host_privilege");
}

TEST(Audit, NotesUnusualButAllowedFeatures) {
  SharedObject object = Plain({"rand", "some_library_call"});
  object.constructors = 7;
  object.resolvers = 1;
  const Audit audit = AuditObject(object);
  EXPECT_FALSE(audit.objection);
  EXPECT_THAT(audit.notes, Contains(HasSubstr("random numbers")));
  EXPECT_THAT(audit.notes, Contains(HasSubstr("some_library_call")));
  EXPECT_THAT(audit.notes, Contains(HasSubstr("runs 7 functions when it is loaded")));
  EXPECT_THAT(AuditObject(object, 3).notes, testing::Not(Contains(HasSubstr("when it is loaded"))));
  EXPECT_THAT(audit.notes, Contains(HasSubstr("IFUNC")));
}

TEST(Audit, RejectsRawSystemCallsAndUnsafeLayouts) {
  const auto code = Code({0x55, 0x0f, 0x05, 0xc3});
  SharedObject object = Plain({});
  object.code.push_back({".text", code});
  ASSERT_TRUE(AuditObject(object).objection);
  EXPECT_EQ(AuditObject(object).objection->message,
            "host code contains a raw system call instruction (.text + 0x1)");
  object = Plain({});
  object.stack = SharedObject::Stack::kExecutable;
  ASSERT_TRUE(AuditObject(object).objection);
  EXPECT_EQ(AuditObject(object).objection->code, "unsafe_object");
  object = Plain({});
  object.writable_code = true;
  EXPECT_TRUE(AuditObject(object).objection);
  object = Plain({});
  object.text_relocations = true;
  EXPECT_TRUE(AuditObject(object).objection);
}

}  // namespace
}  // namespace cupel::build
